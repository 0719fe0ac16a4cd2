#include "apps/interrupts.hpp"
#include "apps/temporary_folder.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace dualpath::apps;

namespace {

/// What the handler was called with, waited for.
struct calls {
  void add(int signal, unsigned count) {
    std::lock_guard lock{mutex};
    seen.emplace_back(signal, count);
    changed.notify_all();
  }
  std::vector<std::pair<int, unsigned>> wait_for(std::size_t count) {
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return seen.size() >= count; });
    return seen;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<int, unsigned>> seen;
};

void remember(int) {}

} // namespace

TEST_CASE("signals arrive in order, on a thread where anything may be done", "[interrupts]") {
  calls seen;
  auto test_thread = std::this_thread::get_id();
  std::atomic<bool> elsewhere{false};
  interrupts watch{[&](int signal, unsigned count) {
    elsewhere = std::this_thread::get_id() != test_thread;
    seen.add(signal, count);
  }};
  std::raise(SIGINT);
  std::raise(SIGTERM);
  std::raise(SIGINT);
  auto heard = seen.wait_for(3);
  CHECK(heard == std::vector<std::pair<int, unsigned>>{{SIGINT, 1}, {SIGTERM, 2}, {SIGINT, 3}});
  CHECK(elsewhere);
}

TEST_CASE("signals do afterwards what they did before, and a new watch counts from one", "[interrupts]") {
  auto old = std::signal(SIGINT, remember);
  for (int round = 0; round < 3; ++round) {
    calls seen;
    interrupts watch{[&](int signal, unsigned count) { seen.add(signal, count); }};
    std::raise(SIGINT);
    CHECK(seen.wait_for(1) == std::vector<std::pair<int, unsigned>>{{SIGINT, 1}});
  }
  CHECK(std::signal(SIGINT, old) == remember);
}

TEST_CASE("signals that were ignored stay ignored", "[interrupts]") {
  auto old = std::signal(SIGINT, SIG_IGN);
  calls seen;
  {
    interrupts watch{[&](int signal, unsigned count) { seen.add(signal, count); }};
    std::raise(SIGINT);
    std::raise(SIGTERM);
    seen.wait_for(1);
  }
  CHECK(seen.seen == std::vector<std::pair<int, unsigned>>{{SIGTERM, 1}});
  CHECK(std::signal(SIGINT, old) == SIG_IGN);
}

TEST_CASE("a temporary folder is gone with its owner, and with a process in a hurry while it is written to",
          "[interrupts]") {
  auto first = temporary_folder::make("dualpath-test");
  REQUIRE(first);
  auto path = first->path();
  CHECK(std::filesystem::is_directory(path));
  {
    auto owner = std::move(*first);
    CHECK(owner.path() == path);
    std::ofstream{path / "file"} << "data";
  }
  CHECK_FALSE(std::filesystem::exists(path));

  auto second = temporary_folder::make("dualpath-test");
  REQUIRE(second);
  std::atomic<bool> over{false};
  std::thread writer{[&] {
    for (int n = 0; !over; ++n) std::ofstream{second->path() / std::to_string(n)} << "data";
  }};
  temporary_folder::remove_all();
  over = true;
  writer.join();
  CHECK_FALSE(std::filesystem::exists(second->path()));
}

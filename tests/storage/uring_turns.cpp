#include "storage/task.hpp"
#include "storage/uring.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

using namespace dualpath::storage;

namespace {

/// A ring of this thread, and in which order things happened.
struct turns_fixture {
  turns_fixture() {
    auto made = uring::create(8);
    if (!made) FAIL(made.error().text);
    ring = std::move(*made);
    ring->attach();
  }

  detached work(std::string name) {
    co_await ring->next_turn();
    happened.push_back(name);
  }
  /// Operations one after the other, each of which can be done at once.
  detached operate(int count) {
    int file = eventfd(static_cast<unsigned>(count), EFD_SEMAPHORE | EFD_CLOEXEC);
    for (int i = 0; i < count; ++i) {
      std::uint64_t value = 0;
      int read = co_await ring->read(file, &value, sizeof value);
      happened.push_back(read == sizeof value ? "operation" : "failure");
    }
    ::close(file);
  }

  std::unique_ptr<uring> ring;
  std::vector<std::string> happened;
};

} // namespace

TEST_CASE_METHOD(turns_fixture, "work that waits for its turn needs no completion, and has one turn a call") {
  work("first");
  work("second");
  CHECK(happened.empty());
  ring->submit_and_wait();
  CHECK(happened == std::vector<std::string>{"first"});
  ring->submit_and_wait();
  CHECK(happened == std::vector<std::string>{"first", "second"});
}

TEST_CASE_METHOD(turns_fixture, "long work begins after all that completions lead to has been asked for") {
  work("work");
  operate(3);
  ring->submit_and_wait();
  CHECK(happened == std::vector<std::string>{"operation", "operation", "operation", "work"});
}

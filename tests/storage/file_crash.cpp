// A writer that dies at any point: no partial block is ever seen, and what it left is cleaned up by the next
// store.
#include "fixture.hpp"

#include "storage/block_paths.hpp"
#include "storage/file_store.hpp"

#include <chrono>
#include <csignal>
#include <fstream>

#include <sys/wait.h>

namespace dualpath::storage::testing {
namespace {

namespace fs = std::filesystem;

constexpr core::block_layout layout{.layers = 8, .block_tokens = 64, .token_bytes = 656};
constexpr std::uint64_t payload_bytes = layout.full_block_bytes();

std::unique_ptr<block_store> open(const fs::path& folder) {
  auto opened = open_file_store({.directory = folder, .model = model(1), .layout = layout, .queue_depth = 8});
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  return std::move(*opened);
}

fs::path temp_of(const fs::path& folder) { return folder / model_folder(model(1), layout) / "tmp"; }

/// Writes blocks eight at a time for ever and sends a byte down the pipe for each.
[[noreturn]] void write_until_killed(const fs::path& folder, int report, std::uint32_t prompt) {
  auto store = open_file_store({.directory = folder, .model = model(1), .layout = layout, .queue_depth = 8});
  if (!store) _exit(1);
  for (std::uint32_t round = 0;; ++round) {
    outcomes all;
    std::vector<buffer> held;
    auto names = chain(prompt + round, 8);
    for (std::size_t i = 0; i < names.size(); ++i) {
      held.push_back(content(i, payload_bytes));
      auto counted = all.at(i);
      (*store)->write(names[i], held[i].span(), [=](core::result<void> result) {
        if (!result || ::write(report, "x", 1) != 1) _exit(1);
        counted(std::move(result));
      });
    }
    all.wait(names.size());
  }
}

TEST_CASE(
    "a writer killed at any moment leaves only whole blocks, and its leftovers go with the next store") {
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed);
  std::mt19937_64 random{random_seed};
  temp_folder folder;
  std::size_t stored_at_least = 0;
  for (std::uint32_t round = 0; round < 12; ++round) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    auto child = fork();
    REQUIRE(child >= 0);
    if (child == 0) write_until_killed(folder.path(), ends[1], round * 100'000);
    ::close(ends[1]);
    auto writes = 1 + random() % 40;
    for (std::size_t i = 0; i < writes; ++i) {
      char byte;
      REQUIRE(::read(ends[0], &byte, 1) == 1);
    }
    // Seven other writes are under way; the child may die in any step of any of them.
    auto moment = std::chrono::steady_clock::now() + std::chrono::microseconds{random() % 3000};
    while (std::chrono::steady_clock::now() < moment) {
    }
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    ::close(ends[0]);
    stored_at_least += writes;

    auto store = open(folder.path());
    auto names = scan(*store);
    CHECK(names.size() >= stored_at_least);
    for (auto& name : names) {
      buffer back{payload_bytes};
      REQUIRE(read(*store, name.key, back) == "ok");
      REQUIRE(back == content(name.depth, payload_bytes));
    }
    CHECK(store->counters().corrupt == 0);
    CHECK(files_under(temp_of(folder.path())).size() == 1); // this store's own lock
  }
}

TEST_CASE("temporary files of a living store are not taken for leftovers, and go when it closes") {
  temp_folder folder;
  auto first = open(folder.path());
  auto locks = files_under(temp_of(folder.path()));
  REQUIRE(locks.size() == 1);
  auto id = locks.front().stem().string();
  auto in_progress = temp_of(folder.path()) / (id + "-99");
  std::ofstream{in_progress} << "half a block";
  auto second = open(folder.path());
  CHECK(fs::exists(in_progress));
  CHECK(files_under(temp_of(folder.path())).size() == 3);
  first.reset();
  second.reset();
  // The lock is gone with its owner, so the file has none: only its age tells.
  auto third = open(folder.path());
  CHECK(fs::exists(in_progress));
  fs::last_write_time(in_progress, fs::file_time_type::clock::now() - std::chrono::hours{2});
  third = open(folder.path());
  CHECK_FALSE(fs::exists(in_progress));
}

TEST_CASE("a half-written temporary file is never a block") {
  temp_folder folder;
  auto store = open(folder.path());
  std::ofstream{temp_of(folder.path()) / "0123456789abcdef-0"} << std::string(100'000, 'x');
  CHECK(scan(*store).empty());
}

} // namespace
} // namespace dualpath::storage::testing

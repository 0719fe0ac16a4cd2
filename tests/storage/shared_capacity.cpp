// Several stores over one folder, in one process and in several, keep to one capacity together.
#include "fixture.hpp"

#include "storage/block_ledger.hpp"
#include "storage/block_paths.hpp"
#include "storage/file_store.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>

namespace dualpath::storage::testing {
namespace {

namespace fs = std::filesystem;

constexpr core::block_layout layout{.layers = 2, .block_tokens = 8, .token_bytes = 512};
constexpr std::uint64_t payload_bytes = layout.full_block_bytes();
constexpr std::uint64_t file_bytes = 4096 + padded_bytes(payload_bytes);

std::unique_ptr<block_store> open(const fs::path& folder, std::uint64_t capacity_blocks) {
  auto opened = open_file_store({.directory = folder,
                                 .model = model(1),
                                 .layout = layout,
                                 .queue_depth = 8,
                                 .capacity_bytes = capacity_blocks * file_bytes});
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  return std::move(*opened);
}

void write_all(block_store& store, const std::vector<block_name>& names) {
  for (auto& name : names) REQUIRE(write(store, name, content(name.depth, payload_bytes)) == "ok");
}

std::string read_back(block_store& store, const block_name& name) {
  buffer back{payload_bytes};
  auto outcome = read(store, name.key, back);
  if (outcome == "ok") CHECK(back == content(name.depth, payload_bytes));
  return outcome;
}

/// Of one store alone, unbounded, so that looking changes nothing.
std::vector<block_name> stored(const fs::path& folder) {
  auto opened = open_file_store({.directory = folder, .model = model(1), .layout = layout});
  REQUIRE(opened);
  return scan(**opened);
}

std::vector<block_name> joined(std::initializer_list<std::vector<block_name>> lists) {
  std::vector<block_name> all;
  for (auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return sorted(all);
}

std::vector<block_name> first_of(std::vector<block_name> names, std::size_t count) {
  names.resize(count);
  return names;
}

TEST_CASE("stores over one folder keep to one capacity, and give up what none of them used for longest") {
  temp_folder folder;
  auto first = open(folder.path(), 6), second = open(folder.path(), 6);
  auto one = chain(1, 3), two = chain(2, 3), three = chain(3, 1), four = chain(4, 1);
  write_all(*first, one);
  write_all(*second, two);
  for (auto& name : one) REQUIRE(read_back(*first, name) == "ok");
  write_all(*first, three);
  CHECK(stored(folder.path()) == joined({one, first_of(two, 2), three}));
  // The second knows from the first that chain 1 is in use.
  write_all(*second, four);
  CHECK(stored(folder.path()) == joined({one, first_of(two, 1), three, four}));
}

TEST_CASE("a block that another store continued is not given up before what continues it") {
  temp_folder folder;
  auto first = open(folder.path(), 3), second = open(folder.path(), 3);
  auto names = chain(1, 2);
  write_all(*first, {names[0]});
  write_all(*second, {names[1]});
  auto other = chain(2, 3);
  write_all(*first, {other[0], other[1]}); // the end of chain 1 has to go
  CHECK(stored(folder.path()) == joined({{names[0]}, {other[0], other[1]}}));
}

TEST_CASE("whoever gives up a block, all stores over the folder are told") {
  temp_folder folder;
  auto first = open(folder.path(), 2), second = open(folder.path(), 2);
  std::mutex mutex;
  std::vector<core::block_key> told;
  second->on_evicted([&](const core::block_key& key) {
    std::lock_guard lock{mutex};
    told.push_back(key);
  });
  auto one = chain(1, 1), two = chain(2, 1), three = chain(3, 1), four = chain(4, 1);
  write_all(*second, one);
  write_all(*second, two);
  write_all(*first, three); // takes the first chain
  write_all(*second, four); // hears of it, and takes the second
  std::lock_guard lock{mutex};
  CHECK(told == std::vector{one[0].key, two[0].key});
}

TEST_CASE("a store that opens beside others knows what they stored; the last to close leaves it as it is") {
  temp_folder folder;
  auto one = chain(1, 4), two = chain(2, 2);
  {
    auto first = open(folder.path(), 4);
    write_all(*first, one);
    auto second = open(folder.path(), 4);
    write_all(*second, two);
    first.reset();
    CHECK(stored(folder.path()) == joined({first_of(one, 2), two}));
  }
  auto later = open(folder.path(), 4);
  CHECK(scan(*later) == joined({first_of(one, 2), two}));
}

TEST_CASE("blocks written without a capacity are counted when a store opens alone") {
  temp_folder folder;
  auto one = chain(1, 5);
  {
    auto unbounded = open_file_store({.directory = folder.path(), .model = model(1), .layout = layout});
    REQUIRE(unbounded);
    write_all(**unbounded, one);
  }
  auto store = open(folder.path(), 3);
  write_all(*store, chain(2, 1)); // behind what it gives up
  CHECK(stored(folder.path()).size() == 3);
}

TEST_CASE("a reader that has the file of a block open reads on when another store gives the block up") {
  temp_folder folder;
  auto store = open(folder.path(), 1);
  auto one = chain(1, 1).front();
  write_all(*store, {one});
  auto path = folder.path() / model_folder(model(1), layout) / block_path(one.key).data();
  int file = ::open(path.c_str(), O_RDONLY);
  REQUIRE(file >= 0);
  write_all(*open(folder.path(), 1), chain(2, 1));
  CHECK_FALSE(fs::exists(path));
  auto expected = content(0, payload_bytes);
  buffer back{payload_bytes};
  CHECK(::pread(file, back.span().data(), payload_bytes, 4096) == static_cast<ssize_t>(payload_bytes));
  CHECK(back == expected);
  ::close(file);
  CHECK(read_back(*store, one) == "not found");
}

/// Writes prompts of its own, and reads them and those of `peer`; every outcome must be right or a miss.
[[noreturn]] void write_and_read(const fs::path& folder, std::uint32_t own, std::uint32_t peer,
                                 std::uint64_t capacity_blocks, std::uint32_t prompts) {
  auto store = open_file_store({.directory = folder,
                                .model = model(1),
                                .layout = layout,
                                .queue_depth = 8,
                                .capacity_bytes = capacity_blocks * file_bytes});
  if (!store) _exit(1);
  for (std::uint32_t prompt = 0; prompt < prompts; ++prompt) {
    outcomes all;
    auto names = chain(own + prompt, 4), others = chain(peer + prompt, 4);
    std::vector<buffer> held;
    for (auto& name : names) held.push_back(content(name.depth, payload_bytes));
    std::vector<buffer> back;
    for (std::size_t i = 0; i < 8; ++i) back.emplace_back(payload_bytes);
    for (std::size_t i = 0; i < 4; ++i) (*store)->write(names[i], held[i].span(), all.at(i));
    all.wait(4);
    for (std::size_t i = 0; i < 4; ++i) {
      (*store)->read(names[i].key, back[i].span(), all.at(4 + i));
      (*store)->read(others[i].key, back[4 + i].span(), all.at(8 + i));
    }
    all.wait(12);
    for (std::size_t i = 0; i < 4; ++i)
      if (all.code(i) != "ok") _exit(2);
    for (std::size_t i = 0; i < 8; ++i) {
      auto code = all.code(4 + i);
      if (code != "ok" && code != "not found") _exit(3);
      if (code == "ok" && !(back[i] == held[i % 4])) _exit(4);
    }
  }
  store->reset();
  _exit(0);
}

/// Files of blocks; those that vanish while they are listed may or may not count.
std::size_t blocks_now(const fs::path& folder) {
  std::size_t blocks = 0;
  std::error_code vanished;
  for (fs::recursive_directory_iterator at{folder, vanished}, end; at != end; at.increment(vanished))
    if (!vanished && at->path().extension() == ".kv") ++blocks;
  return blocks;
}

TEST_CASE("processes that write and read at once never take more than the capacity together, and never err") {
  temp_folder folder;
  constexpr std::uint64_t capacity = 24;
  constexpr int processes = 3;
  auto place = folder.path() / model_folder(model(1), layout);
  fs::create_directories(place);
  auto ledger = block_ledger::open(place.string());
  REQUIRE(ledger);
  (*ledger)->share();
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    auto child = fork();
    REQUIRE(child >= 0);
    auto own = static_cast<std::uint32_t>(i) * 1000,
         peer = static_cast<std::uint32_t>((i + 1) % processes) * 1000;
    if (child == 0) write_and_read(folder.path(), own, peer, capacity, 60);
    children.push_back(child);
  }
  // While one has the turn nobody takes space that was not taken before, so that the files seen then have
  // all been counted, whichever of them come and go meanwhile.
  std::size_t most = 0, looks = 0;
  for (auto left = children; !left.empty();) {
    if (auto turn = (*ledger)->try_turn()) {
      most = std::max(most, blocks_now(folder.path()));
      ++looks;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{2}); // the turn is for those who have work
    std::erase_if(left, [](pid_t child) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) == 0) return false;
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
      return true;
    });
  }
  CHECK(looks > 0);
  CHECK(most <= capacity);
  auto left = stored(folder.path());
  CHECK(left.size() <= capacity);
  CHECK(left.size() > capacity / 2);
}

TEST_CASE("a process that is killed while it writes takes no space from the others for good") {
  temp_folder folder;
  constexpr std::uint64_t capacity = 8;
  auto child = fork();
  REQUIRE(child >= 0);
  if (child == 0) write_and_read(folder.path(), 5000, 6000, capacity, 1'000'000);
  auto survivor = open(folder.path(), capacity);
  while (stored(folder.path()).size() < capacity) {
    int status = 0;
    REQUIRE(waitpid(child, &status, WNOHANG) == 0);
  }
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  auto names = chain(1, capacity);
  write_all(*survivor, names);
  CHECK(stored(folder.path()) == sorted(names));
}

TEST_CASE("a block that a dead process was about to remove is removed by whoever waits for its place") {
  temp_folder folder;
  constexpr std::uint64_t capacity = 4;
  auto survivor = open(folder.path(), capacity);
  auto before = chain(1, capacity), after = chain(2, capacity);
  write_all(*survivor, before);
  {
    auto ledger = block_ledger::open((folder.path() / model_folder(model(1), layout)).string());
    REQUIRE(ledger);
    for (bool said = false; !said;) {
      auto turn = (*ledger)->try_turn();
      if (!turn) continue;
      REQUIRE((*ledger)->read());
      ledger_entry last_words{ledger_change::leaving, before.back().key, {}};
      REQUIRE((*ledger)->add({&last_words, 1}));
      said = true;
    }
  }
  write_all(*survivor, after);
  CHECK(stored(folder.path()) == sorted(after));
}

} // namespace
} // namespace dualpath::storage::testing

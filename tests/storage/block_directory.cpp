#include "storage/block_directory.hpp"

#include "fixture.hpp"

#include <map>
#include <numeric>

namespace dualpath::storage::testing {
namespace {

std::vector<core::block_key> keys_of(const std::vector<block_name>& names) {
  std::vector<core::block_key> keys;
  for (auto& name : names) keys.push_back(name.key);
  return keys;
}

/// The same promises kept the obvious way.
struct naive_directory {
  struct entry {
    block_name name;
    std::uint64_t last_use = 0;
  };
  std::map<core::block_key, entry> blocks;
  std::map<core::block_key, int> pins;
  std::uint64_t uses = 0;

  void insert(const block_name& name) { blocks[name.key] = {name, ++uses}; }
  void touch(std::span<const core::block_key> keys) {
    ++uses;
    for (auto& key : keys)
      if (auto found = blocks.find(key); found != blocks.end()) found->second.last_use = uses;
  }
  bool candidate(const core::block_key& key) const {
    auto pinned = pins.find(key);
    if (!blocks.contains(key) || (pinned != pins.end() && pinned->second > 0)) return false;
    return std::none_of(blocks.begin(), blocks.end(), [&](auto& one) {
      return one.second.name.depth > 0 && one.second.name.parent == key;
    });
  }
  std::optional<std::uint64_t> oldest_use() const {
    std::optional<std::uint64_t> oldest;
    for (auto& [key, one] : blocks)
      if (candidate(key) && (!oldest || one.last_use < *oldest)) oldest = one.last_use;
    return oldest;
  }
};

TEST_CASE("the longest prefix ends at the first block that is not stored") {
  block_directory directory;
  auto names = chain(1, 10);
  auto keys = keys_of(names);
  CHECK(directory.longest_prefix(keys) == 0);
  for (auto& name : names) CHECK(directory.insert(name));
  CHECK_FALSE(directory.insert(names[3]));
  CHECK(directory.size() == 10);
  CHECK(directory.longest_prefix(keys) == 10);
  CHECK(directory.erase(keys[6]));
  CHECK_FALSE(directory.erase(keys[6]));
  CHECK(directory.longest_prefix(keys) == 6);
  CHECK(directory.contains(keys[7]));
  CHECK(directory.insert(names[6]));
  CHECK(directory.longest_prefix(keys) == 10);
}

TEST_CASE("parents may come after their children") {
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed);
  std::mt19937_64 random{random_seed};
  auto names = chain(1, 200);
  auto shuffled = names;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  block_directory directory;
  for (auto& name : shuffled) directory.insert(name);
  CHECK(directory.size() == 200);
  CHECK(directory.longest_prefix(keys_of(names)) == 200);
  CHECK(directory.eviction_candidate() == names.back().key);
}

TEST_CASE("eviction takes leaves first, the least recently used, never a pinned block") {
  block_directory directory;
  auto first = chain(1, 3), second = chain(2, 3);
  for (auto& name : first) directory.insert(name);
  for (auto& name : second) directory.insert(name);
  CHECK(directory.eviction_candidate() == first[2].key);
  directory.touch(keys_of(first));
  CHECK(directory.eviction_candidate() == second[2].key);
  directory.pin(keys_of(second));
  CHECK(directory.eviction_candidate() == first[2].key);
  for (int i = 2; i >= 0; --i) {
    CHECK(directory.eviction_candidate() == first[static_cast<std::size_t>(i)].key);
    directory.erase(first[static_cast<std::size_t>(i)].key);
  }
  CHECK_FALSE(directory.eviction_candidate());
  directory.unpin(keys_of(second));
  CHECK(directory.eviction_candidate() == second[2].key);
}

TEST_CASE("a pin survives the loss of its block and holds when it returns") {
  block_directory directory;
  auto names = chain(1, 1);
  auto keys = keys_of(names);
  directory.insert(names[0]);
  directory.pin(keys);
  directory.pin(keys);
  directory.erase(keys[0]);
  directory.insert(names[0]);
  directory.unpin(keys);
  CHECK_FALSE(directory.eviction_candidate());
  directory.unpin(keys);
  CHECK(directory.eviction_candidate() == keys[0]);
}

/// A forest: chains that branch off each other.
std::vector<std::vector<block_name>> branching_prompts(std::mt19937_64& random) {
  std::vector<std::vector<block_name>> prompts;
  for (std::uint32_t p = 0; p < 8; ++p) {
    auto names = chain(p, 6);
    if (p > 0) {
      auto& trunk = prompts[random() % prompts.size()];
      auto cut = random() % trunk.size();
      names.assign(trunk.begin(), trunk.begin() + static_cast<std::ptrdiff_t>(cut));
      while (names.size() < 6) {
        core::token_id tokens[] = {p, static_cast<core::token_id>(names.size())};
        auto parent = names.empty() ? core::root_key(model(1)) : names.back().key;
        auto depth = static_cast<std::uint32_t>(names.size());
        names.push_back({.key = core::child_key(parent, tokens), .parent = parent, .depth = depth});
      }
    }
    prompts.push_back(std::move(names));
  }
  return prompts;
}

TEST_CASE("any sequence of operations agrees with the obvious implementation") {
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed);
  std::mt19937_64 random{random_seed};
  auto prompts = branching_prompts(random);
  block_directory directory;
  naive_directory model_of_it;
  for (int step = 0; step < 20'000; ++step) {
    auto& prompt = prompts[random() % prompts.size()];
    auto& name = prompt[random() % prompt.size()];
    auto keys = keys_of(prompt);
    auto part = std::span{keys}.first(random() % (keys.size() + 1));
    switch (random() % 6) {
    case 0:
    case 1:
      REQUIRE(directory.insert(name) == !model_of_it.blocks.contains(name.key));
      model_of_it.insert(name);
      break;
    case 2:
      REQUIRE(directory.erase(name.key) == (model_of_it.blocks.erase(name.key) == 1));
      break;
    case 3:
      directory.touch(part);
      model_of_it.touch(part);
      break;
    case 4:
      directory.pin(part);
      for (auto& key : part) ++model_of_it.pins[key];
      break;
    default:
      directory.unpin(part);
      for (auto& key : part)
        if (model_of_it.pins[key] > 0) --model_of_it.pins[key];
    }
    REQUIRE(directory.size() == model_of_it.blocks.size());
    auto length = directory.longest_prefix(keys);
    for (std::size_t i = 0; i < length; ++i) REQUIRE(model_of_it.blocks.contains(keys[i]));
    REQUIRE((length == keys.size() || !model_of_it.blocks.contains(keys[length])));
    auto candidate = directory.eviction_candidate();
    auto oldest = model_of_it.oldest_use();
    REQUIRE(candidate.has_value() == oldest.has_value());
    if (candidate) {
      REQUIRE(model_of_it.candidate(*candidate));
      REQUIRE(model_of_it.blocks[*candidate].last_use == *oldest);
    }
  }
}

TEST_CASE("a block costs at most 120 bytes of memory, and nothing is kept of erased ones") {
  block_directory directory;
  constexpr std::uint32_t count = 100'000;
  auto add_and_erase = [&] {
    std::vector<core::block_key> keys;
    for (std::uint32_t prompt = 0; prompt < count / 100; ++prompt)
      for (auto& name : chain(prompt, 100)) {
        directory.insert(name);
        keys.push_back(name.key);
      }
    REQUIRE(directory.size() == count);
    auto full = directory.memory_bytes();
    CHECK(full / count <= 120);
    for (auto& key : keys) directory.erase(key);
    REQUIRE(directory.size() == 0);
    return full;
  };
  auto first = add_and_erase();
  add_and_erase();
  CHECK(directory.memory_bytes() <= first + count * sizeof(std::uint32_t) * 2); // the list of free places
}

} // namespace
} // namespace dualpath::storage::testing

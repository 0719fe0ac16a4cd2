#include "storage/bounded_store.hpp"

#include "fixture.hpp"

#include "storage/file_store.hpp"
#include "storage/sim_store.hpp"

#include <map>

namespace dualpath::storage::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t payload_bytes = 4096;

/// A bounded store over a simulated one whose every operation takes a millisecond.
struct bounded {
  core::manual_clock clock;
  std::shared_ptr<sim_shelf> shelf = make_sim_shelf();
  std::unique_ptr<block_store> store;
  buffer data = content(1, payload_bytes);

  std::uint64_t medium_blocks; ///< what the medium holds: exactly the first capacity

  explicit bounded(std::uint64_t capacity_blocks) : medium_blocks{capacity_blocks} {
    reopen(capacity_blocks);
  }
  void reopen(std::uint64_t capacity_blocks) {
    store.reset();
    auto inner = open_sim_store({.payload_bytes = payload_bytes,
                                 .clock = &clock,
                                 .shelf = shelf,
                                 .timing = {.latency = 1ms},
                                 // Beyond its capacity the medium itself has no space.
                                 .faults = {.capacity_bytes = medium_blocks * payload_bytes}});
    REQUIRE(inner);
    auto opened = bound_store(std::move(*inner), payload_bytes, capacity_blocks * payload_bytes);
    REQUIRE(opened);
    store = std::move(*opened);
  }
  std::string write(const block_name& name) {
    outcomes all;
    store->write(name, data.span(), all.at(0));
    clock.advance(3ms);
    return all.code(0);
  }
  std::string read(const core::block_key& key) {
    outcomes all;
    store->read(key, data.span(), all.at(0));
    clock.advance(3ms);
    return all.code(0);
  }
};

std::string remove_now(bounded& full, const core::block_key& key) {
  outcomes all;
  full.store->remove(key, all.at(0));
  full.clock.advance(3ms);
  return all.code(0);
}

TEST_CASE("a full store gives up the least recently used leaf") {
  bounded full{4};
  auto first = chain(1, 2), second = chain(2, 2);
  for (auto& name : {first[0], first[1], second[0], second[1]}) REQUIRE(full.write(name) == "ok");
  REQUIRE(full.read(first[1].key) == "ok");
  auto third = chain(3, 1);
  REQUIRE(full.write(third[0]) == "ok");
  CHECK(scan(*full.store) == sorted({first[0], first[1], second[0], third[0]}));
}

TEST_CASE("a chain that grows in a full store never loses its own tail") {
  bounded full{10};
  for (auto& name : chain(1, 5)) REQUIRE(full.write(name) == "ok");
  auto grows = chain(2, 10);
  for (auto& name : grows) REQUIRE(full.write(name) == "ok");
  CHECK(scan(*full.store) == sorted(grows));
}

TEST_CASE("every block given up is told, and no other") {
  bounded full{3};
  std::vector<core::block_key> told;
  full.store->on_evicted([&](const core::block_key& key) { told.push_back(key); });
  auto first = chain(1, 3), second = chain(2, 2);
  for (auto& name : first) REQUIRE(full.write(name) == "ok");
  CHECK(told.empty());
  for (auto& name : second) REQUIRE(full.write(name) == "ok");
  CHECK(told == std::vector{first[2].key, first[1].key});
  CHECK(remove_now(full, second[1].key) == "ok");
  CHECK(told.size() == 2);
}

TEST_CASE("a block given up and written again at once is stored") {
  bounded full{1};
  auto one = chain(1, 1).front(), other = chain(2, 1).front();
  REQUIRE(full.write(one) == "ok");
  outcomes all;
  full.store->write(other, full.data.span(), all.at(0));
  full.store->write(one, full.data.span(), all.at(1));
  full.clock.advance(10ms);
  CHECK(all.code(0) == "ok");
  CHECK(all.code(1) == "ok");
  CHECK(scan(*full.store) == std::vector{one});
  CHECK(full.read(one.key) == "ok");
}

TEST_CASE("a store smaller than a chain goes on") {
  bounded full{1};
  auto names = chain(1, 5);
  for (auto& name : names) REQUIRE(full.write(name) == "ok");
  CHECK(scan(*full.store) == std::vector{names.back()});
}

TEST_CASE("a block that is being read is not taken; the write waits for it") {
  bounded full{1};
  auto held = chain(1, 1).front(), next = chain(2, 1).front();
  REQUIRE(full.write(held) == "ok");
  outcomes all;
  buffer back{payload_bytes};
  full.store->read(held.key, back.span(), all.at(0));
  full.store->write(next, full.data.span(), all.at(1));
  full.clock.advance(1ms);
  CHECK(all.code(0) == "ok");
  CHECK(all.calls() == std::vector{1, 0});
  full.clock.advance(3ms);
  CHECK(all.calls() == std::vector{1, 1});
  CHECK(all.code(1) == "ok");
  CHECK(scan(*full.store) == std::vector{next});
}

TEST_CASE("writes that wait when the store closes complete with closed") {
  bounded full{1};
  auto held = chain(1, 1).front(), next = chain(2, 1).front();
  REQUIRE(full.write(held) == "ok");
  outcomes all;
  buffer back{payload_bytes};
  full.store->read(held.key, back.span(), all.at(0));
  full.store->write(next, full.data.span(), all.at(1));
  full.store.reset();
  CHECK(all.calls() == std::vector{1, 1});
  CHECK(all.code(1) == "closed");
}

TEST_CASE("a store that opens over more blocks than it may hold comes down to its capacity") {
  bounded full{20};
  for (auto& name : chain(1, 20)) REQUIRE(full.write(name) == "ok");
  full.reopen(5);
  full.clock.advance(3ms);
  CHECK(scan(*full.store) == sorted(chain(1, 5)));
}

TEST_CASE("a capacity without room for a block is refused") {
  temp_folder folder;
  auto store = open_file_store({.directory = folder.path(),
                                .model = model(1),
                                .layout = {.layers = 1, .block_tokens = 1, .token_bytes = 4096},
                                .capacity_bytes = 8191});
  REQUIRE_FALSE(store);
  CHECK(store.error().code == core::errc::invalid_argument);
  CHECK_THAT(store.error().text, Catch::Contains("8191"));
}

TEST_CASE("any sequence of operations keeps to the capacity and returns only what was written") {
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed);
  std::mt19937_64 random{random_seed};
  constexpr std::uint64_t capacity = 12;
  bounded full{capacity};
  std::vector<block_name> names;
  for (std::uint32_t prompt = 0; prompt < 6; ++prompt)
    for (auto& name : chain(prompt, 6)) names.push_back(name);
  std::map<core::block_key, buffer> contents;
  for (std::size_t i = 0; i < names.size(); ++i) contents.emplace(names[i].key, content(i, payload_bytes));

  std::size_t asked = 0, completed = 0, hits = 0;
  for (int step = 0; step < 5000; ++step) {
    auto& name = names[random() % names.size()];
    ++asked;
    switch (random() % 8) {
    case 0:
      full.store->remove(name.key, [&](core::result<void>) { ++completed; });
      break;
    case 1:
    case 2:
    case 3: {
      auto back = std::make_shared<buffer>(payload_bytes);
      full.store->read(name.key, back->span(), [&, back, key = name.key](core::result<void> outcome) {
        ++completed;
        if (!outcome) return;
        ++hits;
        REQUIRE(*back == contents.at(key));
      });
      break;
    }
    default:
      full.store->write(name, contents.at(name.key).span(), [&](core::result<void> outcome) {
        ++completed;
        INFO((outcome ? "" : outcome.error().text));
        REQUIRE(outcome);
      });
    }
    if (random() % 3 == 0) full.clock.advance(core::duration{random() % 2'000'000});
    if (step % 100 == 99) {
      full.clock.advance(1s); // everything has come to rest
      REQUIRE(completed == asked);
      REQUIRE(scan(*full.store).size() <= capacity);
    }
  }
  CHECK(hits > 0);
}

} // namespace
} // namespace dualpath::storage::testing

#include "core/policy/path_choice.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <limits>

using namespace dualpath::core;

namespace {

constexpr std::uint32_t block_tokens = 16;

read_path choose_path(policy chosen, const path_inputs& inputs, std::uint32_t blocks = 4) {
  return choose_reads(chosen, inputs, blocks, block_tokens).path();
}

read_split split(const path_inputs& inputs, std::uint32_t blocks) {
  return choose_reads(policy::split, inputs, blocks, block_tokens);
}

/// When the last block of either side has arrived, in seconds.
struct ends {
  double prefill = 0, decode = 0;
  double last() const { return std::max(prefill, decode); }
};
ends ends_of(const path_inputs& inputs, const read_split& reads) {
  auto end = [](const read_queue& queue, std::uint32_t blocks) {
    return static_cast<double>(queue.tokens + std::uint64_t{blocks} * block_tokens) / queue.tokens_per_s;
  };
  return {end(inputs.prefill, reads.prefill_blocks), end(inputs.decode, reads.decode_blocks)};
}

} // namespace

TEST_CASE("without a hit, and when recomputing, nothing is read") {
  for (auto p : {policy::dualpath, policy::basic, policy::round_robin, policy::recompute, policy::oracle,
                 policy::split})
    CHECK(choose_path(p, {}, 0) == read_path::none);
  CHECK(choose_path(policy::recompute, {}) == read_path::none);
}

TEST_CASE("the side with the shorter read queue reads") {
  for (auto p : {policy::dualpath, policy::oracle})
    for (std::uint64_t turn : {0, 1}) {
      CHECK(choose_path(p, {{10}, {11}, turn}) == read_path::prefill);
      CHECK(choose_path(p, {{11}, {10}, turn}) == read_path::decode);
    }
}

TEST_CASE("equal read queues take turns") {
  CHECK(choose_path(policy::dualpath, {{5}, {5}, 0}) == read_path::prefill);
  CHECK(choose_path(policy::dualpath, {{5}, {5}, 1}) == read_path::decode);
}

TEST_CASE("on one node the hit goes to the decode buffer, where it crosses the compute NICs once less") {
  for (auto p : {policy::dualpath, policy::split})
    for (std::uint64_t turn : {0, 1}) CHECK(choose_path(p, {{5}, {5}, turn, true}) == read_path::decode);
}

TEST_CASE("basic reads on the prefill side whatever the queues, round robin by turn") {
  CHECK(choose_path(policy::basic, {{1000}, {0}, 1}) == read_path::prefill);
  CHECK(choose_path(policy::round_robin, {{1000}, {0}, 4}) == read_path::prefill);
  CHECK(choose_path(policy::round_robin, {{0}, {1000}, 5}) == read_path::decode);
}

TEST_CASE("two storage NICs that are read through the shorter queue stay within one request of each other") {
  DUALPATH_RANDOM(random);
  std::array<std::uint64_t, 2> queues{};
  for (std::uint64_t turn = 0; turn < 5000; ++turn) {
    auto blocks = static_cast<std::uint32_t>(random.between(1, 60));
    auto path = choose_path(policy::dualpath, {{queues[0]}, {queues[1]}, turn}, blocks);
    queues[path == read_path::prefill ? 0 : 1] += blocks * block_tokens;
    REQUIRE(std::max(queues[0], queues[1]) - std::min(queues[0], queues[1]) <= 60 * block_tokens);
  }
}

TEST_CASE("a hit that is split over two idle NICs is halved, its odd block by turn") {
  CHECK(split({}, 8) == read_split{4, 4});
  CHECK(split({{}, {}, 0}, 7) == read_split{3, 4});
  CHECK(split({{}, {}, 1}, 7) == read_split{4, 3});
}

TEST_CASE("a single block is not split: one side reads it, by turn or where it arrives first") {
  CHECK(split({{}, {}, 0}, 1) == read_split{0, 1});
  CHECK(split({{}, {}, 1}, 1) == read_split{1, 0});
  CHECK(split({{1}, {0}, 0}, 1) == read_split{1, 0});
  CHECK(split({{0}, {1}, 1}, 1) == read_split{0, 1});
  CHECK(split({{0, 1000}, {0, 1001}, 0}, 1) == read_split{1, 0});
}

TEST_CASE("a side whose queue is longer by the whole hit reads nothing of it") {
  constexpr auto endless = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t longer : {std::uint64_t{10 * block_tokens}, endless}) {
    CHECK(split({{longer}, {}}, 10) == read_split{10, 0});
    CHECK(split({{}, {longer}}, 10) == read_split{0, 10});
  }
  CHECK(split({{8 * block_tokens}, {}}, 10) == read_split{9, 1});
  CHECK(split({{endless}, {endless}}, 10) == read_split{5, 5});
}

TEST_CASE("a faster side reads more, and a rate that is not known is taken to be that of the other side") {
  CHECK(split({{0, 3000}, {0, 1000}}, 8) == read_split{2, 6});
  CHECK(split({{0, 1000}, {0, 3000}}, 8) == read_split{6, 2});
  CHECK(split({{0, 3000}, {0, 0}}, 8) == read_split{4, 4});
  CHECK(split({{0, 0}, {0, 3000}}, 8) == read_split{4, 4});
  CHECK(split({{0, 1e-6}, {0, 1e9}}, 8) == read_split{8, 0});
}

TEST_CASE(
    "both sides of a split finish within one block of each other, and no other split finishes earlier") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 2000; ++round) {
    path_inputs inputs;
    inputs.prefill = {random.between(0, 3000), random.real(10, 1000)};
    inputs.decode = {random.between(0, 3000), random.real(10, 1000)};
    inputs.turn = random.between(0, 1);
    auto blocks = static_cast<std::uint32_t>(random.between(1, 200));
    auto chosen = split(inputs, blocks);
    REQUIRE(chosen.blocks() == blocks);
    auto finish = ends_of(inputs, chosen);
    if (chosen.path() == read_path::split) {
      auto block_s = block_tokens / std::min(inputs.prefill.tokens_per_s, inputs.decode.tokens_per_s);
      REQUIRE(std::abs(finish.prefill - finish.decode) <= block_s * 1.0001);
    }
    // A side without blocks has nothing to finish.
    auto last = [&](const read_split& reads) {
      auto end = ends_of(inputs, reads);
      return reads.path() == read_path::prefill  ? end.prefill
             : reads.path() == read_path::decode ? end.decode
                                                 : end.last();
    };
    for (std::uint32_t decode = 0; decode <= blocks; ++decode)
      REQUIRE(last(chosen) <= last({decode, blocks - decode}) * 1.0001);
  }
}

TEST_CASE(
    "the share of decode-side reads stays within the limits of the cluster's shape, whatever the queues") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 50; ++round) {
    read_share share;
    share.lowest = random.real(0, 0.5);
    share.highest = share.lowest + random.real(0.05, 0.5);
    auto chosen = random.chance(0.5) ? policy::dualpath : policy::split;
    constexpr std::uint32_t longest = 60;
    for (std::uint64_t turn = 0; turn < 2000; ++turn) {
      auto blocks = static_cast<std::uint32_t>(random.between(1, longest));
      path_inputs inputs{{random.between(0, 3)}, {random.between(0, 3)}, turn, false, share};
      auto reads = choose_reads(chosen, inputs, blocks, block_tokens);
      REQUIRE(reads.blocks() == blocks);
      share.all_tokens += blocks * block_tokens;
      share.decode_tokens += reads.decode_blocks * block_tokens;
      auto slack = static_cast<double>(longest * block_tokens) / static_cast<double>(share.all_tokens);
      auto now = static_cast<double>(share.decode_tokens) / static_cast<double>(share.all_tokens);
      REQUIRE(now <= share.highest + slack);
      REQUIRE(now >= share.lowest - slack);
    }
  }
}

TEST_CASE("a bad block ends a hit, whoever reads what follows it") {
  read_split reads{5, 3};
  CHECK(reads.verified(5, 3) == reads);
  CHECK(reads.verified(5, 1) == read_split{5, 1});
  CHECK(reads.verified(5, 0).path() == read_path::decode);
  CHECK(reads.verified(2, 3) == read_split{2, 0});
  CHECK(reads.verified(0, 3).path() == read_path::none);
  CHECK(read_split{0, 3}.verified(0, 2) == read_split{0, 2});
}

TEST_CASE("a side that failed reads nothing, whatever the policy: the other takes all, or nobody") {
  for (auto p : {policy::dualpath, policy::split, policy::basic, policy::round_robin, policy::oracle})
    for (auto same_node : {false, true})
      for (std::uint64_t turn : {0, 1}) {
        path_inputs inputs{{1000, 100}, {10, 100}, turn, same_node};
        inputs.failed = {.prefill = true};
        CHECK(choose_reads(p, inputs, 4, block_tokens) == read_split{4, 0});
        inputs.failed = {.decode = true};
        CHECK(choose_reads(p, inputs, 4, block_tokens) == read_split{0, 4});
        inputs.failed.add({.prefill = true});
        CHECK(choose_reads(p, inputs, 4, block_tokens) == read_split{});
      }
}

TEST_CASE("a side that is avoided reads nothing where the other may, whatever the policy") {
  for (auto p : {policy::dualpath, policy::split, policy::basic, policy::round_robin, policy::oracle})
    for (std::uint64_t turn : {0, 1}) {
      path_inputs inputs{{1000, 100}, {10, 100}, turn};
      auto undisturbed = choose_reads(p, inputs, 4, block_tokens);
      inputs.avoided = {.prefill = true};
      CHECK(choose_reads(p, inputs, 4, block_tokens) == read_split{4, 0});
      inputs.avoided = {.decode = true};
      CHECK(choose_reads(p, inputs, 4, block_tokens) == read_split{0, 4});
      inputs.avoided.prefill = true;
      CHECK(choose_reads(p, inputs, 4, block_tokens) == undisturbed);
      // Rather a side that may fail than one that has.
      inputs.avoided = {.prefill = true};
      inputs.failed = {.decode = true};
      CHECK(choose_reads(p, inputs, 4, block_tokens) == read_split{0, 4});
    }
  path_inputs avoided{{}, {}, 0, false, {}, {}, {.prefill = true}};
  CHECK(choose_reads(policy::recompute, avoided, 4, block_tokens) == read_split{});
}

#include "core/policy/path_choice.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>

using namespace dualpath::core;

TEST_CASE("without a hit, and when recomputing, nothing is read") {
  for (auto p : {policy::dualpath, policy::basic, policy::round_robin, policy::recompute, policy::oracle})
    CHECK(choose_path(p, {}, 0) == read_path::none);
  CHECK(choose_path(policy::recompute, {}, 64) == read_path::none);
}

TEST_CASE("the side with the shorter read queue reads") {
  for (auto p : {policy::dualpath, policy::oracle})
    for (std::uint64_t turn : {0, 1}) {
      CHECK(choose_path(p, {10, 11, turn, false}, 64) == read_path::prefill);
      CHECK(choose_path(p, {11, 10, turn, false}, 64) == read_path::decode);
    }
}

TEST_CASE("equal read queues take turns") {
  CHECK(choose_path(policy::dualpath, {5, 5, 0, false}, 64) == read_path::prefill);
  CHECK(choose_path(policy::dualpath, {5, 5, 1, false}, 64) == read_path::decode);
}

TEST_CASE("on one node the hit goes to the decode buffer, where it crosses the compute NICs once less") {
  for (std::uint64_t turn : {0, 1})
    CHECK(choose_path(policy::dualpath, {5, 5, turn, true}, 64) == read_path::decode);
}

TEST_CASE("basic reads on the prefill side whatever the queues, round robin by turn") {
  CHECK(choose_path(policy::basic, {1000, 0, 1, false}, 64) == read_path::prefill);
  CHECK(choose_path(policy::round_robin, {1000, 0, 4, false}, 64) == read_path::prefill);
  CHECK(choose_path(policy::round_robin, {0, 1000, 5, false}, 64) == read_path::decode);
}

TEST_CASE("two storage NICs that are read through the shorter queue stay within one request of each other") {
  DUALPATH_RANDOM(random);
  std::array<std::uint64_t, 2> queues{};
  for (std::uint64_t turn = 0; turn < 5000; ++turn) {
    auto tokens = random.between(1, 1000);
    auto path = choose_path(policy::dualpath, {queues[0], queues[1], turn, false}, tokens);
    queues[path == read_path::prefill ? 0 : 1] += tokens;
    REQUIRE(std::max(queues[0], queues[1]) - std::min(queues[0], queues[1]) <= 1000);
  }
}

TEST_CASE(
    "the share of decode-side reads stays within the limits of the cluster's shape, whatever the queues") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 50; ++round) {
    read_share share;
    share.lowest = random.real(0, 0.5);
    share.highest = share.lowest + random.real(0.05, 0.5);
    constexpr std::uint64_t longest = 1000;
    for (std::uint64_t turn = 0; turn < 2000; ++turn) {
      auto tokens = random.between(1, longest);
      path_inputs inputs{random.between(0, 3), random.between(0, 3), turn, false, share};
      share.all_tokens += tokens;
      if (choose_path(policy::dualpath, inputs, tokens) == read_path::decode) share.decode_tokens += tokens;
      auto slack = static_cast<double>(longest) / static_cast<double>(share.all_tokens);
      auto now = static_cast<double>(share.decode_tokens) / static_cast<double>(share.all_tokens);
      REQUIRE(now <= share.highest + slack);
      REQUIRE(now >= share.lowest - slack);
    }
  }
}

#include "core/workload/arrival.hpp"
#include "core/workload/trace.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;

namespace {

round_spec appended(std::uint32_t append, std::uint32_t generate) {
  round_spec round;
  round.append_tokens = append;
  round.generate_tokens = generate;
  return round;
}

round_spec absolute(std::vector<std::uint64_t> ids, std::uint32_t prompt, std::uint32_t generate = 1) {
  round_spec round;
  round.prompt_hash_ids = std::move(ids);
  round.prompt_hash_block_tokens = 64;
  round.prompt_tokens = prompt;
  round.generate_tokens = generate;
  return round;
}

trace of_rounds(std::vector<std::vector<round_spec>> sessions) {
  trace t;
  for (auto& rounds : sessions) {
    auto name = "s" + std::to_string(t.trajectories.size());
    t.trajectories.push_back({name, 0, std::move(rounds)});
  }
  return t;
}

} // namespace

TEST_CASE("statistics of appended rounds follow the replay rule") {
  auto s = compute_stats(of_rounds({{appended(100, 10), appended(20, 30)}, {appended(60, 40)}}));
  CHECK(s.trajectories == 2);
  CHECK(s.rounds == 3);
  CHECK(s.mean_turns == Approx(1.5));
  CHECK(s.mean_append == Approx((60.0 + 60) / 2));   // (100 + 20) / 2, 60
  CHECK(s.mean_generate == Approx((20.0 + 40) / 2)); // (10 + 30) / 2, 40
  CHECK(s.mean_total == Approx((160.0 + 100) / 2));
  CHECK(s.mean_context == Approx((115.0 + 60) / 2)); // prompts 100 and 130, 60
  CHECK(s.prompt_tokens == 290);
  CHECK(s.max_prompt == 130);
  CHECK(s.max_total == 160);
  CHECK(s.hit_upper_bound == Approx(110.0 / 290)); // the second round finds 100 + 10
}

TEST_CASE("the hit bound of absolute prompts counts a shared prefix once in all sessions") {
  auto s = compute_stats(
      of_rounds({{absolute({1, 2, 3}, 150), absolute({1, 2, 4}, 192)}, {absolute({1, 5}, 100)}}));
  // New: 150; then block 4 with 64; then block 5 with 36.
  CHECK(s.prompt_tokens == 442);
  CHECK(s.hit_upper_bound == Approx(1 - (150.0 + 64 + 36) / 442));
  CHECK(s.mean_append == Approx(((150.0 + 64) / 2 + 100) / 2));
}

TEST_CASE("a hash id after another prefix is no hit") {
  auto s = compute_stats(of_rounds({{absolute({1, 2}, 128)}, {absolute({7, 2}, 128)}}));
  CHECK(s.hit_upper_bound == 0);
}

TEST_CASE("explicit ids that open two sessions alike count as a possible hit") {
  auto a = appended(4, 1), b = appended(4, 1);
  a.append_ids = {5, 6, 7, 8};
  b.append_ids = {5, 6, 9, 8};
  CHECK(compute_stats(of_rounds({{a}, {b}})).hit_upper_bound == Approx(2.0 / 8));
}

TEST_CASE("an empty trace has statistics of zero") {
  auto s = compute_stats({});
  CHECK(s.trajectories == 0);
  CHECK(s.mean_turns == 0);
  CHECK(s.hit_upper_bound == 0);
}

TEST_CASE("scaling keeps at least one token of everything") {
  auto t = scale_tokens(of_rounds({{appended(10, 3), absolute({1, 2, 3}, 130)}}), 1e-4);
  const auto& rounds = t.trajectories[0].rounds;
  CHECK(rounds[0].append_tokens == 1);
  CHECK(rounds[0].generate_tokens == 1);
  CHECK(rounds[1].prompt_hash_block_tokens == 1);
  CHECK(rounds[1].prompt_tokens == 3);
}

TEST_CASE("scaling by a quarter quarters every length") {
  auto t = scale_tokens(of_rounds({{appended(400, 100), absolute({1, 2, 3}, 64 * 2 + 32, 40)}}), 0.25);
  const auto& rounds = t.trajectories[0].rounds;
  CHECK(rounds[0].append_tokens == 100);
  CHECK(rounds[0].generate_tokens == 25);
  CHECK(rounds[1].prompt_hash_block_tokens == 16);
  CHECK(rounds[1].prompt_tokens == 40);
  CHECK(rounds[1].generate_tokens == 10);
}

TEST_CASE("explicit ids are cut when scaled down and repeated when scaled up") {
  auto round = appended(4, 1);
  round.append_ids = {1, 2, 3, 4};
  CHECK(scale_tokens(of_rounds({{round}}), 0.5).trajectories[0].rounds[0].append_ids
        == std::vector<token_id>{1, 2});
  CHECK(scale_tokens(of_rounds({{round}}), 1.5).trajectories[0].rounds[0].append_ids
        == std::vector<token_id>{1, 2, 3, 4, 1, 2});
}

TEST_CASE("a limit keeps the first agents and rounds, and 0 keeps all") {
  auto t = of_rounds({{appended(1, 1), appended(2, 1), appended(3, 1)}, {appended(4, 1)}});
  auto cut = limit(t, 1, 2);
  REQUIRE(cut.trajectories.size() == 1);
  REQUIRE(cut.trajectories[0].rounds.size() == 2);
  CHECK(cut.trajectories[0].rounds[1].append_tokens == 2);
  CHECK(limit(t, 0, 0).trajectories.size() == 2);
  CHECK(limit(t, 9, 9).trajectories[0].rounds.size() == 3);
}

TEST_CASE("closed arrivals are all at once, trace arrivals as recorded") {
  auto t = of_rounds({{appended(1, 1)}, {appended(1, 1)}});
  t.trajectories[1].arrival_ms = 700;
  CHECK(set_arrivals(t, {arrival_kind::closed, 0}, 1).trajectories[1].arrival_ms == 0);
  CHECK(set_arrivals(t, {arrival_kind::trace, 0}, 1).trajectories[1].arrival_ms == 700);
}

TEST_CASE("Poisson arrivals have the rate asked for and repeat for a seed") {
  trace t;
  t.trajectories.resize(20000);
  auto a = set_arrivals(t, {arrival_kind::poisson, 4}, 7), b = set_arrivals(t, {arrival_kind::poisson, 4}, 7);
  CHECK(a.trajectories.back().arrival_ms == Approx(20000 / 4 * 1000).epsilon(0.03));
  CHECK(a.trajectories.back().arrival_ms == b.trajectories.back().arrival_ms);
  CHECK(a.trajectories.back().arrival_ms
        != set_arrivals(t, {arrival_kind::poisson, 4}, 8).trajectories.back().arrival_ms);
  for (std::size_t i = 1; i < t.trajectories.size(); ++i)
    REQUIRE(a.trajectories[i].arrival_ms >= a.trajectories[i - 1].arrival_ms);
}

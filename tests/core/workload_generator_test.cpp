#include "core/workload/generator.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>
#include <set>

using namespace dualpath::core;

TEST_CASE("the means of 500 generated trajectories are within 2 % of the published ones") {
  auto seed = dualpath::tests::seed_of_run();
  for (const auto& profile : workload_profiles)
    for (std::uint64_t i = 0; i < 5; ++i) {
      INFO(profile.name << " DUALPATH_SEED=" << seed << " + " << i);
      auto s = compute_stats(generate_trace(profile, 500, seed + i));
      CHECK(s.trajectories == 500);
      CHECK(s.mean_turns == Approx(profile.turns).epsilon(0.02));
      CHECK(s.mean_append == Approx(profile.append).epsilon(0.02));
      CHECK(s.mean_generate == Approx(profile.generate).epsilon(0.02));
      CHECK(s.mean_total == Approx(profile.total).epsilon(0.02));
      CHECK(s.mean_context == Approx(profile.context).epsilon(0.02));
      CHECK(s.max_total <= profile.max_tokens);
    }
}

TEST_CASE("generated agents find nearly all of their context stored") {
  auto s = compute_stats(generate_trace(*find_profile("64K"), 100, 1));
  CHECK(s.hit_upper_bound > 0.98);
}

TEST_CASE("every generated round appends and generates, and sessions have different names") {
  auto t = generate_trace(workload_profiles[1], 200, dualpath::tests::seed_of_run());
  std::set<std::string> names;
  for (const auto& one : t.trajectories) {
    names.insert(one.session);
    REQUIRE_FALSE(one.rounds.empty());
    for (const auto& round : one.rounds) {
      REQUIRE(round.append_tokens >= 1);
      REQUIRE(round.generate_tokens >= 1);
      REQUIRE_FALSE(round.absolute());
    }
  }
  CHECK(names.size() == 200);
}

TEST_CASE("the same seed generates the same trace, another seed another one") {
  auto lengths = [](std::uint64_t seed) {
    std::vector<std::uint32_t> all;
    for (const auto& one : generate_trace(workload_profiles[0], 20, seed).trajectories)
      for (const auto& round : one.rounds) {
        all.push_back(round.append_tokens);
        all.push_back(round.generate_tokens);
      }
    return all;
  };
  CHECK(lengths(5) == lengths(5));
  CHECK(lengths(5) != lengths(6));
}

TEST_CASE("a single trajectory can be generated") {
  auto t = generate_trace(workload_profiles[2], 1, 1);
  REQUIRE(t.trajectories.size() == 1);
  CHECK(compute_stats(t).max_total <= 65536);
  CHECK(generate_trace(workload_profiles[2], 0, 1).trajectories.empty());
}

TEST_CASE("an unknown profile names the known ones") {
  auto profile = find_profile("16K");
  REQUIRE_FALSE(profile);
  CHECK(profile.error().code == errc::invalid_argument);
  CHECK(profile.error().text == "there is no synthetic trace '16K'; choose 32K, 48K or 64K");
  CHECK(find_profile("48K")->turns == 106);
}

#include "core/policy/cost_model.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace dualpath::core;

namespace {

double squared_error(const attention_cost_model& m, const std::vector<cost_sample>& samples) {
  double sum = 0;
  for (const auto& s : samples)
    sum += (m.seconds(s.cached, s.bsz) - s.seconds) * (m.seconds(s.cached, s.bsz) - s.seconds);
  return sum;
}

std::vector<cost_sample> shapes(dualpath::tests::random_source& random, int count) {
  std::vector<cost_sample> samples{{0, 64, 0}, {0, 2048, 0}, {30000, 64, 0}, {30000, 2048, 0}};
  for (int i = 0; i < count; ++i) samples.push_back({random.between(0, 65536), random.between(1, 4096), 0});
  return samples;
}

} // namespace

TEST_CASE("attention pairs are counted one by one") {
  for (std::uint64_t cached : {0, 1, 7})
    for (std::uint64_t bsz : {1, 2, 9}) {
      std::uint64_t pairs = 0;
      for (std::uint64_t query = 0; query < bsz; ++query)
        for (std::uint64_t key = 0; key < cached + bsz; ++key) pairs += key <= cached + query;
      CHECK(attention_pairs(cached, bsz) == static_cast<double>(pairs));
    }
}

TEST_CASE("a fit finds the coefficients that made exact samples, also where some are zero") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 200; ++round) {
    auto zero_or = [&](double lowest, double highest) {
      return random.chance(0.25) ? 0 : random.real(lowest, highest);
    };
    attention_cost_model truth{zero_or(1e-4, 1e-2), zero_or(1e-7, 1e-4), zero_or(1e-11, 1e-8)};
    auto samples = shapes(random, 8);
    for (auto& s : samples) s.seconds = truth.seconds(s.cached, s.bsz);
    auto fitted = fit_cost_model(samples);
    REQUIRE(fitted);
    for (const auto& s : samples)
      REQUIRE(fitted->seconds(s.cached, s.bsz) == Approx(s.seconds).epsilon(1e-6).margin(1e-9));
  }
}

TEST_CASE("no model with non-negative coefficients is closer to noisy samples than the fitted one") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 100; ++round) {
    auto samples = shapes(random, 8);
    for (auto& s : samples) s.seconds = random.real(0, 1);
    auto fitted = fit_cost_model(samples);
    REQUIRE(fitted);
    REQUIRE(fitted->base_s >= 0);
    REQUIRE(fitted->per_token_s >= 0);
    REQUIRE(fitted->per_pair_s >= 0);
    auto error = squared_error(*fitted, samples);
    for (int i = 0; i < 200; ++i) {
      auto other = *fitted;
      auto nudge = [&](double& value, double scale) {
        value = std::max(0.0, value + random.real(-1, 1) * scale);
      };
      nudge(other.base_s, 0.1);
      nudge(other.per_token_s, 1e-5);
      nudge(other.per_pair_s, 1e-9);
      REQUIRE(squared_error(other, samples) >= error * (1 - 1e-9));
    }
  }
}

TEST_CASE("samples that do not determine a cost model, or are no measurements, are refused") {
  std::vector<cost_sample> too_few{{0, 64, 0.1}, {0, 128, 0.2}};
  CHECK(fit_cost_model({}).error().code == errc::invalid_argument);
  CHECK_FALSE(fit_cost_model(too_few));
  std::vector<cost_sample> alike(5, cost_sample{100, 64, 0.1});
  CHECK_FALSE(fit_cost_model(alike));
  std::vector<cost_sample> one_length{{0, 64, 0.1}, {1000, 64, 0.2}, {2000, 64, 0.3}};
  CHECK_FALSE(fit_cost_model(one_length));
  std::vector<cost_sample> negative{{0, 64, 0.1}, {0, 128, -0.2}, {1000, 64, 0.2}};
  CHECK(fit_cost_model(negative).error().text.find("128") != std::string::npos);
}

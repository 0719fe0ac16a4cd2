#include "kernels/cpu/sampler.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

using namespace dualpath::kernels;

namespace {
std::uint32_t draw(const std::vector<float>& logits, sampling how, std::uint32_t position) {
  return sample_token(logits, how, position, best_kernels());
}
} // namespace

TEST_CASE("greedy takes the largest logit, the lowest id of equals") {
  CHECK(draw({1, 3, 2, 3}, {}, 0) == 1);
  CHECK(draw({-5}, {}, 9) == 0);
  CHECK(draw({-3, -2, -2.5F}, {}, 0) == 1);
}

TEST_CASE("a draw depends on seed and position only") {
  std::vector<float> logits(100, 0.0F);
  std::vector<std::uint32_t> first, second;
  for (std::uint32_t position = 0; position < 50; ++position) first.push_back(draw(logits, {1, 7}, position));
  for (std::uint32_t position = 50; position-- > 0;)
    second.insert(second.begin(), draw(logits, {1, 7}, position));
  CHECK(first == second);
  std::vector<std::uint32_t> other_seed;
  for (std::uint32_t position = 0; position < 50; ++position)
    other_seed.push_back(draw(logits, {1, 8}, position));
  CHECK(first != other_seed);
}

TEST_CASE("tokens are drawn as often as the softmax says") {
  std::vector<float> logits{0, 1, 2, -1, -200};
  auto temperature = GENERATE(0.5F, 1.0F, 2.0F);
  constexpr int draws = 20'000;
  std::vector<int> counts(logits.size());
  for (std::uint32_t position = 0; position < draws; ++position)
    ++counts[draw(logits, {temperature, 11}, position)];
  double total = 0;
  for (auto logit : logits) total += std::exp(static_cast<double>(logit / temperature));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    auto expected = std::exp(static_cast<double>(logits[i] / temperature)) / total * draws;
    // Six standard deviations of a binomial; the draws are fixed by the seed.
    CHECK(std::abs(counts[i] - expected) <= 6 * std::sqrt(expected + 1));
  }
  CHECK(counts[4] == 0);
}

TEST_CASE("a temperature near zero draws what greedy takes") {
  std::vector<float> logits{0.5F, 2, 1.9F};
  for (std::uint32_t position = 0; position < 100; ++position) CHECK(draw(logits, {1e-4F, 3}, position) == 1);
}

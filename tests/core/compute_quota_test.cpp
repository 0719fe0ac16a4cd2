#include "core/policy/compute_quota.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace dualpath::core;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

struct batch_total {
  double seconds = 0;
  std::uint64_t staged = 0, computed = 0;
};

batch_total total_of(const std::vector<prefill_candidate>& fifo, const std::vector<std::uint64_t>& taken,
                     const attention_cost_model& model) {
  batch_total total{model.base_s};
  for (std::size_t i = 0; i < taken.size(); ++i) {
    total.seconds += model.marginal_seconds(fifo[i].cached_tokens, taken[i]);
    total.staged += fifo[i].cached_tokens + taken[i];
    total.computed += taken[i];
  }
  return total;
}

bool in_memory(const batch_total& t, const quota_limits& limits) {
  return t.staged <= limits.max_batch_tokens
         && (limits.max_chunk_tokens == 0 || t.computed <= limits.max_chunk_tokens);
}

bool in_quota(const batch_total& t, const quota_limits& limits) {
  return t.seconds <= to_seconds(limits.quota);
}

} // namespace

TEST_CASE(
    "requests join the batch while it stays in the quota, the next one with the chunk that still does") {
  attention_cost_model model{0, 1e-3, 0};
  std::vector<prefill_candidate> fifo{{5000, 100}, {0, 150}, {0, 100}, {0, 10}};
  CHECK(fill_quota(fifo, model, {300ms}) == std::vector<std::uint64_t>{100, 150, 50});
  CHECK(fill_quota(fifo, model, {251ms}) == std::vector<std::uint64_t>{100, 150, 1});
  CHECK(fill_quota(fifo, model, {250ms}) == std::vector<std::uint64_t>{100, 150});
}

TEST_CASE("a head that alone exceeds the quota still makes progress") {
  attention_cost_model model{1, 1e-3, 0};
  std::vector<prefill_candidate> fifo{{0, 100}, {0, 100}};
  CHECK(fill_quota(fifo, model, {300ms}) == std::vector<std::uint64_t>{1});
  quota_limits limits{300ms};
  limits.min_chunk_tokens = 64;
  CHECK(fill_quota(fifo, model, limits) == std::vector<std::uint64_t>{64});
  fifo[0].remaining_tokens = 5;
  CHECK(fill_quota(fifo, model, limits) == std::vector<std::uint64_t>{5});
}

TEST_CASE("staging counts cached tokens and is never exceeded, not even for progress") {
  attention_cost_model model{};
  std::vector<prefill_candidate> fifo{{50, 30}, {10, 30}};
  CHECK(fill_quota(fifo, model, {300ms, 100, 0}) == std::vector<std::uint64_t>{30, 10});
  CHECK(fill_quota(fifo, model, {300ms, 90, 0}) == std::vector<std::uint64_t>{30});
  CHECK(fill_quota(fifo, model, {300ms, 51, 0}) == std::vector<std::uint64_t>{1});
  CHECK(fill_quota(fifo, model, {300ms, 50, 0}).empty());
  CHECK(fill_quota(fifo, model, {300ms, no_limit, 40}) == std::vector<std::uint64_t>{30, 10});
  CHECK(fill_quota({}, model, {300ms}).empty());
}

TEST_CASE(
    "compute quota: a batch keeps every limit, and one more token of the next request would break one") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 2000; ++round) {
    attention_cost_model model{random.real(0, 0.05), random.real(0, 1e-3), random.real(0, 1e-6)};
    quota_limits limits{duration{static_cast<std::int64_t>(random.between(0, 600'000'000))},
                        random.between(0, 8000), random.chance(0.5) ? 0 : random.between(1, 1000),
                        random.between(1, 32)};
    std::vector<prefill_candidate> fifo;
    for (auto n = random.between(0, 8); n > 0; --n)
      fifo.push_back({random.between(0, 3000), random.between(1, 600)});

    auto taken = fill_quota(fifo, model, limits);
    REQUIRE(taken.size() <= fifo.size());
    auto total = total_of(fifo, taken, model);
    REQUIRE(in_memory(total, limits));
    bool forced = taken.size() == 1 && taken[0] <= limits.min_chunk_tokens;
    if (!taken.empty() && !forced) REQUIRE(in_quota(total, limits));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      REQUIRE(taken[i] >= 1);
      REQUIRE(taken[i] <= fifo[i].remaining_tokens);
      if (i + 1 < taken.size()) REQUIRE(taken[i] == fifo[i].remaining_tokens);
    }
    auto more = taken;
    if (!more.empty() && more.back() < fifo[more.size() - 1].remaining_tokens)
      ++more.back();
    else if (more.size() < fifo.size())
      more.push_back(1);
    else
      continue;
    auto more_total = total_of(fifo, more, model);
    if (taken.empty())
      REQUIRE_FALSE(in_memory(more_total, limits));
    else
      REQUIRE_FALSE((in_memory(more_total, limits) && in_quota(more_total, limits)));
    if (taken.size() == 1 && in_memory(more_total, limits))
      REQUIRE(taken[0] >= std::min(fifo[0].remaining_tokens, limits.min_chunk_tokens));
  }
}

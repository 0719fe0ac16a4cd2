#include "core/policy/compute_quota.hpp"

#include <algorithm>

namespace dualpath::core {

namespace {

/// A batch as it grows.
class growing_batch {
public:
  growing_batch(const attention_cost_model& model, const quota_limits& limits)
      : model_{model}, limits_{limits}, seconds_{model.base_s} {}

  /// Most tokens of `candidate` that memory and chunk size admit.
  std::uint64_t room_for(const prefill_candidate& candidate) const {
    auto staging = limits_.max_batch_tokens - staged_tokens_;
    auto room = staging > candidate.cached_tokens ? staging - candidate.cached_tokens : 0;
    if (limits_.max_chunk_tokens != 0) room = std::min(room, limits_.max_chunk_tokens - computed_tokens_);
    return std::min(room, candidate.remaining_tokens);
  }

  bool in_quota(const prefill_candidate& candidate, std::uint64_t bsz) const {
    return seconds_ + model_.marginal_seconds(candidate.cached_tokens, bsz) <= to_seconds(limits_.quota);
  }

  /// The largest number of tokens up to `most` within the quota; the prediction grows with it.
  std::uint64_t largest_in_quota(const prefill_candidate& candidate, std::uint64_t most) const {
    if (in_quota(candidate, most)) return most;
    std::uint64_t fits = 0, exceeds = most;
    while (exceeds - fits > 1) {
      auto middle = fits + (exceeds - fits) / 2;
      (in_quota(candidate, middle) ? fits : exceeds) = middle;
    }
    return fits;
  }

  void add(const prefill_candidate& candidate, std::uint64_t bsz) {
    seconds_ += model_.marginal_seconds(candidate.cached_tokens, bsz);
    staged_tokens_ += candidate.cached_tokens + bsz;
    computed_tokens_ += bsz;
  }

private:
  const attention_cost_model& model_;
  const quota_limits& limits_;
  double seconds_;
  std::uint64_t staged_tokens_ = 0;
  std::uint64_t computed_tokens_ = 0;
};

} // namespace

std::vector<std::uint64_t> fill_quota(std::span<const prefill_candidate> fifo,
                                      const attention_cost_model& model, const quota_limits& limits) {
  std::vector<std::uint64_t> taken;
  growing_batch batch{model, limits};
  for (const auto& candidate : fifo) {
    auto room = batch.room_for(candidate);
    auto bsz = batch.largest_in_quota(candidate, room);
    if (taken.empty())
      bsz = std::max(bsz, std::min(room, std::max<std::uint64_t>(limits.min_chunk_tokens, 1)));
    if (bsz == 0) break;
    batch.add(candidate, bsz);
    taken.push_back(bsz);
    if (bsz < candidate.remaining_tokens) break;
  }
  return taken;
}

} // namespace dualpath::core

// Predicts the time of a prefill batch from what was measured beforehand, so that batches can be cut to a
// quota (spec §7, "compute quota"). Attention grows with the pairs of new and visible tokens, everything else
// with the new tokens.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <span>

namespace dualpath::core {

/// Pairs (query, key) of `bsz` new tokens after `cached` tokens under causal attention.
constexpr double attention_pairs(std::uint64_t cached, std::uint64_t bsz) {
  auto n = static_cast<double>(bsz);
  return n * static_cast<double>(cached) + n * (n + 1) / 2;
}

struct attention_cost_model {
  double base_s = 0;      ///< once a batch
  double per_token_s = 0; ///< a new token
  double per_pair_s = 0;  ///< a pair of attention

  /// What one more request adds to a batch.
  constexpr double marginal_seconds(std::uint64_t cached, std::uint64_t bsz) const {
    return per_token_s * static_cast<double>(bsz) + per_pair_s * attention_pairs(cached, bsz);
  }
  /// A batch of this one request.
  constexpr double seconds(std::uint64_t cached, std::uint64_t bsz) const {
    return base_s + marginal_seconds(cached, bsz);
  }
};

struct cost_sample {
  std::uint64_t cached = 0; ///< tokens
  std::uint64_t bsz = 0;    ///< new tokens
  double seconds = 0;       ///< measured, of a batch of this one request
};

/// Least squares over the samples with coefficients ≥ 0. Fails with invalid_argument where the samples do not
/// determine the three coefficients (fewer than three different shapes, or shapes in which tokens and pairs
/// grow together).
result<attention_cost_model> fit_cost_model(std::span<const cost_sample> samples);

} // namespace dualpath::core

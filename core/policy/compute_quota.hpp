// How much of which request a prefill engine computes in its next forward batch (spec §7, "compute quota").
// Engines of a group wait for one another in collectives, so batches should take equal time, not hold equal
// tokens. Pure.
#pragma once

#include "core/clock.hpp"
#include "core/policy/cost_model.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace dualpath::core {

struct prefill_candidate {
  std::uint64_t cached_tokens = 0;    ///< in KV already: hit tokens and chunks computed earlier
  std::uint64_t remaining_tokens = 0; ///< to compute, at least 1
};

struct quota_limits {
  duration quota{300'000'000};
  /// Staging: most Σ (cached + computed) tokens of a batch.
  std::uint64_t max_batch_tokens = std::numeric_limits<std::uint64_t>::max();
  /// Most Σ computed tokens of a batch; 0: no limit.
  std::uint64_t max_chunk_tokens = 0;
  /// Progress: the head gets at least min(remaining, this) tokens even over the quota, never over the other
  /// limits.
  std::uint64_t min_chunk_tokens = 1;
};

/// Tokens to compute for the first n candidates, n being the size of the result. Only the last of them may
/// get fewer than remain. Empty only without candidates, or where the head's cached tokens leave no room for
/// a token in max_batch_tokens; admission must rule the latter out.
std::vector<std::uint64_t> fill_quota(std::span<const prefill_candidate> fifo,
                                      const attention_cost_model& model, const quota_limits& limits);

} // namespace dualpath::core

// The shape of a model as far as moving its KV-cache and timing its computation need it: KV bytes, and FLOPs
// from the published architecture. The FLOPs reproduce the cache-compute ratios of the paper (spec §8).
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace dualpath::kernels {

struct pattern_shape {
  std::string name;
  std::uint32_t layers = 0;
  std::uint32_t token_bytes = 0; ///< KV bytes per layer per token
  std::uint32_t vocabulary = 0;
  std::uint32_t max_tokens = 0;

  double flops_per_token = 0; ///< 2 × active parameters: all that does not depend on the context
  /// Of every (computed token, context token) pair: attention, or what picks its tokens (the indexer).
  double attention_flops_per_pair_per_layer = 0;
  /// Of the pairs within the best `top_attention_tokens` of the context only (sparse attention).
  double top_attention_flops_per_pair_per_layer = 0;
  std::uint32_t top_attention_tokens = 0;
};

/// `qwen2.5-32b`, `qwen3-235b-a22b`, `deepseek-v3`, `deepseek-v3.2`, or LAYERSxTOKEN_BYTES such as `16x4096`,
/// which costs as many FLOPs for its KV bytes as Qwen2.5-32B. Errors: invalid_argument.
core::result<pattern_shape> parse_pattern_shape(std::string_view text);

/// FLOPs to compute `computed_tokens` tokens after `cached_tokens` ones, in all layers. Exact: the chunks of
/// a prompt add up to the whole.
double prefill_flops(const pattern_shape& shape, std::uint64_t cached_tokens, std::uint64_t computed_tokens);

} // namespace dualpath::kernels

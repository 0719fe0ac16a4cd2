// How KV-cache is cut into blocks (spec §3). A Full Block [layers, tokens, bytes] is the unit of storage; a
// Layer Block [1, tokens, bytes] is the unit of transfer. A Full Block is its Layer Blocks one after another,
// so a layer of it is a contiguous slice and no conversion ever happens. Pure arithmetic; all sizes in bytes
// unless named.
#pragma once

#include <cstdint>

namespace dualpath::core {

struct block_layout {
  std::uint32_t layers = 0;
  std::uint32_t block_tokens = 64;
  /// KV bytes of one token in one layer; K of all KV heads, then V of all KV heads.
  std::uint32_t token_bytes = 0;

  constexpr std::uint64_t layer_block_bytes() const { return std::uint64_t{block_tokens} * token_bytes; }
  constexpr std::uint64_t full_block_bytes() const { return layer_block_bytes() * layers; }
  /// Offset of a layer in its Full Block.
  constexpr std::uint64_t layer_offset(std::uint32_t layer) const { return layer * layer_block_bytes(); }
  /// Offset of a token row in its Layer Block; `position` counts from the start of the sequence.
  constexpr std::uint64_t row_offset(std::uint64_t position) const {
    return position % block_tokens * token_bytes;
  }
  constexpr std::uint64_t block_of(std::uint64_t position) const { return position / block_tokens; }
  /// Blocks that hold `tokens` tokens, the last one perhaps partly filled.
  constexpr std::uint64_t blocks_for(std::uint64_t tokens) const {
    return (tokens + block_tokens - 1) / block_tokens;
  }
  /// Blocks wholly filled by `tokens` tokens: all that may be stored.
  constexpr std::uint64_t full_blocks_in(std::uint64_t tokens) const { return tokens / block_tokens; }
  /// Blocks of a prompt that may come from the store: at least one token is left to compute, for its logits.
  constexpr std::uint64_t usable_hit_blocks(std::uint64_t prompt_tokens) const {
    return prompt_tokens == 0 ? 0 : (prompt_tokens - 1) / block_tokens;
  }
  friend constexpr bool operator==(const block_layout&, const block_layout&) = default;
};

} // namespace dualpath::core

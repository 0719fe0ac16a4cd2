// Which storage NICs read the stored part of a prompt (spec §4), and the policies that choose them.
#pragma once

#include <cstdint>

namespace dualpath::core {

enum class read_path : std::uint8_t {
  none,    ///< nothing was loaded: everything is computed
  prefill, ///< storage → PE buffer
  decode,  ///< storage → DE buffer → (compute network, layer by layer) → PE
  split,   ///< some blocks on either path
};

constexpr const char* to_string(read_path path) {
  switch (path) {
  case read_path::none:
    return "recompute";
  case read_path::prefill:
    return "prefill";
  case read_path::decode:
    return "decode";
  case read_path::split:
    return "split";
  }
  return "unknown";
}

/// Consecutive blocks of a request, counted from its first.
struct block_range {
  std::uint32_t first = 0, count = 0;

  constexpr std::uint32_t end() const { return first + count; }
  constexpr bool contains(const block_range& other) const {
    return first <= other.first && other.end() <= end();
  }
  friend constexpr bool operator==(const block_range&, const block_range&) = default;
};

/// Which side reads which blocks of a hit: the decode side the first ones, the prefill side those after them.
/// In this order the landing lacks one range at the start of prefill, hit blocks that the prefill engine
/// holds and rows that it computes, and holds another; reads of a whole hit on one side are the two extremes.
struct read_split {
  std::uint32_t decode_blocks = 0;
  std::uint32_t prefill_blocks = 0;

  constexpr std::uint32_t blocks() const { return decode_blocks + prefill_blocks; }
  constexpr block_range decode_range() const { return {0, decode_blocks}; }
  constexpr block_range prefill_range() const { return {decode_blocks, prefill_blocks}; }
  constexpr read_path path() const {
    if (blocks() == 0) return read_path::none;
    if (decode_blocks == 0) return read_path::prefill;
    return prefill_blocks == 0 ? read_path::decode : read_path::split;
  }
  /// What may be used where only so many leading blocks of each part verified: a bad block ends the hit,
  /// whoever read what follows it.
  constexpr read_split verified(std::uint32_t good_decode_blocks, std::uint32_t good_prefill_blocks) const {
    if (good_decode_blocks < decode_blocks) return {good_decode_blocks, 0};
    return {decode_blocks, good_prefill_blocks};
  }
  friend constexpr bool operator==(const read_split&, const read_split&) = default;
};

/// Sides whose storage failed a read of a request with an I/O error, or did not answer it in time.
struct failed_reads {
  bool prefill = false, decode = false;

  constexpr bool any() const { return prefill || decode; }
  void add(const failed_reads& more) {
    prefill |= more.prefill;
    decode |= more.decode;
  }
  friend bool operator==(const failed_reads&, const failed_reads&) = default;
};

enum class policy : std::uint8_t {
  dualpath,    ///< the side with the shorter read queue
  split,       ///< both sides, each so many blocks that they finish together
  basic,       ///< the prefill side only
  round_robin, ///< sides in turn
  recompute,   ///< no stored KV is used, none is stored
  oracle,      ///< as dualpath over a store and networks that cost nothing
};

constexpr const char* to_string(policy p) {
  switch (p) {
  case policy::dualpath:
    return "dualpath";
  case policy::split:
    return "split";
  case policy::basic:
    return "basic";
  case policy::round_robin:
    return "round_robin";
  case policy::recompute:
    return "recompute";
  case policy::oracle:
    return "oracle";
  }
  return "unknown";
}

} // namespace dualpath::core

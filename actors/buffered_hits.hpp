// Hit blocks of a request in the PE buffer, read or on their way there. They belong to one attempt at the
// request at a time, but may outlive it: kept for the next one, they need not be read again.
#pragma once

#include "core/ids.hpp"
#include "core/read_path.hpp"
#include "core/shared_sequence.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace dualpath::actors {

/// Consecutive blocks that were read together.
struct buffered_hits {
  core::block_range blocks;
  core::shared_keys keys;            ///< one for each block
  core::epoch read_as;               ///< of the attempt that had them read
  std::vector<std::uint32_t> slots;  ///< one for each block; empty while they are read: the read owns them
  std::optional<std::uint32_t> good; ///< once read: leading blocks that verified
  bool unreadable = false;           ///< the block after them, with an I/O error
  bool adopted = false;              ///< from an earlier attempt

  /// How many of the blocks can be had, as far as is known.
  std::uint32_t usable() const { return good.value_or(blocks.count); }
};

/// In order, without a gap.
using buffered_parts = std::vector<buffered_hits>;

/// The blocks before the first that did not verify.
inline core::block_range usable_blocks(const buffered_parts& parts) {
  if (parts.empty()) return {};
  core::block_range usable{parts.front().blocks.first, 0};
  for (auto& part : parts) {
    usable.count += part.usable();
    if (part.usable() < part.blocks.count) break;
  }
  return usable;
}

/// Whether what ends them is an I/O error, which the other side may not meet.
inline bool ends_unreadable(const buffered_parts& parts) {
  for (auto& part : parts)
    if (part.usable() < part.blocks.count) return part.unreadable;
  return false;
}

/// Of an attempt that is over.
struct kept_attempt {
  core::epoch epoch;
  buffered_parts parts;
};

} // namespace dualpath::actors

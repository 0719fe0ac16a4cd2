// The shape of every transfer between a staging area and Full Blocks: equal pieces at a fixed stride on both
// sides. One layer of a run of consecutive Full Blocks is a single strided piece, so that the number of
// descriptors of a request does not grow with its context.
#pragma once

#include <cstdint>
#include <span>

namespace dualpath::core {

/// `count` pieces of `bytes` each: piece i lies at local_offset + i * local_stride here and at
/// remote_offset + i * remote_stride there.
struct strided_piece {
  std::uint64_t local_offset = 0, local_stride = 0;
  std::uint64_t remote_offset = 0, remote_stride = 0;
  std::uint64_t bytes = 0;
  std::uint32_t count = 1;
  friend constexpr bool operator==(const strided_piece&, const strided_piece&) = default;
};

constexpr std::uint64_t total_bytes(std::span<const strided_piece> pieces) {
  std::uint64_t sum = 0;
  for (auto& piece : pieces) sum += piece.bytes * piece.count;
  return sum;
}

} // namespace dualpath::core

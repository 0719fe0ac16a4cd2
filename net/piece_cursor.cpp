#include "net/piece_cursor.hpp"

namespace dualpath::net {
namespace {

/// Whether `count` rows of `bytes`, `stride` apart from `offset` on, lie within `size`; safe against
/// overflow.
bool fits(std::uint64_t offset, std::uint64_t stride, std::uint64_t bytes, std::uint32_t count,
          std::uint64_t size) {
  if (count == 0 || bytes == 0) return true;
  std::uint64_t span = 0, first = 0, end = 0;
  return !__builtin_mul_overflow(stride, std::uint64_t{count} - 1, &span)
         && !__builtin_add_overflow(offset, span, &first) && !__builtin_add_overflow(first, bytes, &end)
         && end <= size;
}

core::error outside(const char* side, std::size_t index, std::uint64_t offset, std::uint64_t stride,
                    const strided_piece& piece, std::uint64_t size) {
  return {core::errc::invalid_argument, "piece " + std::to_string(index) + " (" + std::to_string(piece.count)
                                            + " x " + std::to_string(piece.bytes) + " bytes from offset "
                                            + std::to_string(offset) + ", stride " + std::to_string(stride)
                                            + ") leaves the " + side + " region of " + std::to_string(size)
                                            + " bytes"};
}

} // namespace

core::result<void> check_pieces(const std::vector<strided_piece>& pieces, std::uint64_t local_bytes,
                                std::uint64_t remote_bytes) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto& piece = pieces[i];
    if (!fits(piece.local_offset, piece.local_stride, piece.bytes, piece.count, local_bytes)) {
      return outside("local", i, piece.local_offset, piece.local_stride, piece, local_bytes);
    }
    if (!fits(piece.remote_offset, piece.remote_stride, piece.bytes, piece.count, remote_bytes)) {
      return outside("remote", i, piece.remote_offset, piece.remote_stride, piece, remote_bytes);
    }
  }
  return {};
}

} // namespace dualpath::net

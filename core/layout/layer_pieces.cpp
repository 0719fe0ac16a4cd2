#include "core/layout/layer_pieces.hpp"

#include <algorithm>

namespace dualpath::core {

std::vector<strided_piece> layer_pieces(const block_layout& layout, std::uint64_t slot_bytes,
                                        std::span<const std::uint32_t> slots, std::uint32_t layer,
                                        std::uint64_t staging_offset, std::uint64_t from_token,
                                        std::uint64_t to_token) {
  std::vector<strided_piece> pieces;
  for (auto token = from_token; token < to_token;) {
    auto block = layout.block_of(token);
    auto end = std::min<std::uint64_t>(to_token, (block + 1) * layout.block_tokens);
    strided_piece piece;
    piece.local_offset = staging_offset + block * layout.layer_block_bytes() + layout.row_offset(token);
    piece.remote_offset = slots[block] * slot_bytes + layout.layer_offset(layer) + layout.row_offset(token);
    piece.bytes = (end - token) * layout.token_bytes;
    piece.local_stride = layout.layer_block_bytes();
    piece.remote_stride = slot_bytes;
    auto whole = piece.bytes == layout.layer_block_bytes();
    if (whole && !pieces.empty() && pieces.back().bytes == piece.bytes
        && pieces.back().remote_offset + pieces.back().count * slot_bytes == piece.remote_offset) {
      ++pieces.back().count;
    } else {
      pieces.push_back(piece);
    }
    token = end;
  }
  return pieces;
}

} // namespace dualpath::core

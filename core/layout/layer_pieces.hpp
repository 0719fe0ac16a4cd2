// Which bytes move between a staging area that holds one layer of a sequence and the Full Blocks of that
// sequence, wherever they lie in a pool (spec §3, §4). Pure arithmetic.
#pragma once

#include "core/layout/block_layout.hpp"
#include "core/layout/strided_piece.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dualpath::core {

/// The KV rows [from_token, to_token) of `layer`. Local side: Layer Blocks of the sequence one after another,
/// block 0 at `staging_offset`. Remote side: block b of the sequence is the Full Block in slot slots[b], at
/// slots[b] * slot_bytes. Runs of whole blocks in consecutive slots become one piece.
std::vector<strided_piece> layer_pieces(const block_layout& layout, std::uint64_t slot_bytes,
                                        std::span<const std::uint32_t> slots, std::uint32_t layer,
                                        std::uint64_t staging_offset, std::uint64_t from_token,
                                        std::uint64_t to_token);

} // namespace dualpath::core

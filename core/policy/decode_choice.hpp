// Which decode engine takes each request (spec §7, "DE choice"), in two steps: a group when the request
// arrives, an engine of the group when the group fetches. Decode time follows the number of sequences, HBM
// the number of tokens, so inside a group sequences are balanced as long as tokens stay near their mean.
// Pure.
#pragma once

#include "core/policy/engine_load.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dualpath::core {

/// Index of the group with the fewest unfinished tokens, the lowest of equals. At least one group.
std::size_t choose_decode_group(std::span<const std::uint64_t> group_unfinished_tokens);

/// Assigns the first n requests of the group's private queue, in order; n ends where the head fits no
/// engine's free HBM. Ties go to fewer unfinished tokens, then to the earlier engine of `engines`.
std::vector<assignment> choose_decode(std::span<const waiting_request> fifo,
                                      std::vector<engine_load> engines);

} // namespace dualpath::core

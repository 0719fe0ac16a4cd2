// What an attempt at a request leaves to the next one. The hit blocks that one side has read, or is reading,
// survive the death of the other side's engine, and the failure or silence of the other side's storage: the
// request is routed to the engine that keeps them again, and only what is missing is read. Those of a landing
// survive a failed read of their own side too. Pure.
#pragma once

#include "core/ids.hpp"
#include "core/policy/path_choice.hpp"

#include <cstdint>

namespace dualpath::core {

/// Hit blocks of a request in the buffer of an engine: the first ones in a landing, any in a PE buffer.
struct kept_hits {
  engine_role side = engine_role::prefill;
  block_range blocks;
};

struct adopted_reads {
  read_split hits;  ///< which side is to have which blocks
  read_split reads; ///< of these, how many each is to read: the rest is there

  constexpr std::uint32_t kept_blocks() const { return hits.blocks() - reads.blocks(); }
};

/// choose_reads() for a request of which an engine of the new route keeps blocks, with `hit_blocks` of it
/// stored by now. What is missing is placed as the policy places a whole hit, as far as the order of a split
/// allows: kept in a landing, the decode side has the first blocks and may read more behind them; kept in a
/// PE buffer, either side may read what is missing before them, and the prefill side reads what follows.
/// Where nobody can read what is missing before them, blocks of a PE buffer are of no use.
adopted_reads adopt_hits(policy chosen, const path_inputs& inputs, std::uint32_t hit_blocks,
                         std::uint32_t block_tokens, const kept_hits& kept);

} // namespace dualpath::core

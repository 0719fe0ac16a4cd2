#include "core/policy/adoption.hpp"

#include <algorithm>

namespace dualpath::core {

adopted_reads adopt_hits(policy chosen, const path_inputs& inputs, std::uint32_t hit_blocks,
                         std::uint32_t block_tokens, const kept_hits& kept) {
  auto choose = [&](std::uint32_t blocks) { return choose_reads(chosen, inputs, blocks, block_tokens); };
  auto afresh = [&] {
    auto reads = choose(hit_blocks);
    return adopted_reads{reads, reads};
  };
  auto [first, count] = kept.blocks;
  if (count == 0) return afresh();
  // Kept blocks need not be stored any more.
  auto behind = std::max(hit_blocks, kept.blocks.end()) - kept.blocks.end();
  if (kept.side == engine_role::decode) {
    auto reads = choose(behind);
    return {{count + reads.decode_blocks, reads.prefill_blocks}, reads};
  }
  auto reads = hit_blocks < first ? read_split{} : choose(first);
  if (reads.blocks() < first) return afresh();
  if (!inputs.failed.prefill) reads.prefill_blocks += behind;
  return {{reads.decode_blocks, reads.prefill_blocks + count}, reads};
}

} // namespace dualpath::core

// Which storage NICs read the stored part of a prompt (spec §7, "Read path"). Pure.
#pragma once

#include "core/read_path.hpp"

#include <cstdint>

namespace dualpath::core {

/// The share of reads that the cluster's shape allows on the decode side (policy/bounds.hpp), and the share
/// so far in the caller's window. The defaults limit nothing.
struct read_share {
  std::uint64_t all_tokens = 0;    ///< tokens whose read was placed on either side
  std::uint64_t decode_tokens = 0; ///< of these on the decode side
  double lowest = 0;               ///< min_decode_read_share
  double highest = 1;              ///< max_decode_read_share
};

/// What waits at the storage NIC of a node, and how fast that NIC reads.
struct read_queue {
  std::uint64_t tokens = 0;
  double tokens_per_s = 0; ///< 0: not known; taken to be as fast as the other side's
};

struct path_inputs {
  read_queue prefill;     ///< of the prefill engine's node
  read_queue decode;      ///< of the decode engine's node
  std::uint64_t turn = 0; ///< a count of decisions; its parity alternates sides
  bool same_node = false; ///< both engines share one storage NIC and one read queue
  read_share share = {};
  failed_reads failed = {};  ///< sides where an earlier read of the request failed or was not answered
  failed_reads avoided = {}; ///< sides where reads of others did, lately (core/policy/read_pause)
};

/// Who reads which of `hit_blocks` blocks of `block_tokens` tokens, `block_tokens` at least 1.
///
/// dualpath and oracle: all on the side with the shorter queue, equals by turn (even: prefill), unless that
/// would push the share of decode-side reads out of its limits. split: so many on either side that the last
/// block arrives as early as it can, behind what waits there already; where that is the same within the
/// limits, by turn. One side is left with nothing where it could not help: its queue is longer by the whole
/// hit, or a single block is asked for. On one node both queues are the same one, and the decode side reads
/// everything: its hit blocks cross the compute NICs once less. basic: prefill. round_robin: by turn.
/// recompute: nothing.
///
/// Whatever the policy, a side that failed reads nothing, for a slow path beats one that hangs: the other
/// side takes all, and nothing is read where both have failed. A side that is avoided reads nothing either,
/// unless there is no better one.
read_split choose_reads(policy chosen, const path_inputs& inputs, std::uint32_t hit_blocks,
                        std::uint32_t block_tokens);

} // namespace dualpath::core

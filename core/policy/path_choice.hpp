// Which side's storage NIC reads the stored part of a prompt (spec §7, "Read path"). Pure.
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

struct path_inputs {
  std::uint64_t prefill_read_queue_tokens = 0; ///< waiting at the storage NIC of the prefill engine's node
  std::uint64_t decode_read_queue_tokens = 0;  ///< waiting at the storage NIC of the decode engine's node
  std::uint64_t turn = 0;                      ///< a count of decisions; its parity alternates sides
  bool same_node = false;                      ///< both engines share one storage NIC and one read queue
  read_share share = {};
};

/// dualpath and oracle: the side with the shorter queue, equals by turn (even: prefill), unless that would
/// push the share of decode-side reads out of its limits. On one node both queues are the same one, and the
/// decode side is taken: its hit blocks cross the compute NICs once less. basic: prefill. round_robin: by
/// turn. recompute, or no hit: none.
read_path choose_path(policy chosen, const path_inputs& inputs, std::uint64_t hit_tokens);

} // namespace dualpath::core

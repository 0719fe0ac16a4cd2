// Which prefill engine takes each waiting request (spec §7, "PE choice"): storage reads must not queue on one
// node while another node's storage NIC idles, and no engine may collect more work than it finishes soon.
// Pure.
#pragma once

#include "core/policy/engine_load.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dualpath::core {

struct prefill_thresholds {
  std::uint64_t short_queue_tokens = 0; ///< α: at most this much waits in the read queue of a first choice
  std::uint64_t overload_tokens = 0;    ///< β: an engine with more unfinished tokens gets nothing
};

/// Assigns the first n requests of `fifo`, in order; n ends where every engine is overloaded. Engines are
/// those of the group that fetches. Ties go to the earlier engine of `engines`.
std::vector<assignment> choose_prefill(std::span<const waiting_request> fifo,
                                       std::vector<engine_load> engines, prefill_thresholds thresholds);

} // namespace dualpath::core

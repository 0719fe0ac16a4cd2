// Shares of a network that has no virtual lanes of its own: a fabric around any other fabric whose lanes take
// turns as the arbiter tables say, one direction apart from the other (puts and messages leave, gets arrive).
// Transfers are cut into quanta, and few bytes are under way at a time, so that a collective never waits
// behind more than the window while KV takes all that is idle.
//
// The contract is that of net/fabric.hpp. A transfer that fails or times out while parts of it are under way
// is fenced by the fabric underneath; what waits here touches no memory. Counters are of whole transfers, and
// tell how long each lane has waited for its turn. Completions run on threads of the fabric underneath, or of
// the clock.
#pragma once

#include "core/policy/link_pacer.hpp"
#include "core/policy/qos.hpp"
#include "net/fabric.hpp"

#include <memory>

namespace dualpath::net {

struct pacing_options {
  core::clock* clock = nullptr; ///< that of the fabric underneath; outlives both
  core::qos_config qos;         ///< classes named like lanes
  core::pacing_window window;
  std::uint64_t quantum_bytes = 256ULL << 10; ///< of a transfer, handed on at a time
};

/// Errors: invalid_argument (no clock, check_qos(), a lane without a class).
core::result<std::unique_ptr<fabric>> pace_lanes(std::unique_ptr<fabric> inner, pacing_options options);

} // namespace dualpath::net

// The fabric over UCX: InfiniBand, RoCE, shared memory or TCP, whatever connects two engines, in one process
// or many.
//
// Every endpoint opens with a hello that names the process it means and says who calls; a pair that does not
// fit is refused by name on both sides, and a connect from A to B lets B send to A too. A peer is down when
// its control lane breaks or it says bye. On the other lanes a failure or a timeout closes that lane's
// endpoint only (which fences it) and fails what was in flight; the next transfer opens it again. A peer that
// comes back keeps its id.
//
// A message is done when it was handed to the transport; it is lost only if the peer goes down. A failed put
// may still reach the peer's memory until the peer, too, has closed the connection (on_peer_down there, or
// disconnect()).
#pragma once

#include "net/copy_crew.hpp"
#include "net/fabric.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dualpath::net {

/// UCX settings of each lane, names without UCX_: {"IB_SL", "1"}, {"IB_TRAFFIC_CLASS", "96"}.
using lane_settings = std::array<std::vector<std::pair<std::string, std::string>>, lane_count>;

inline constexpr core::duration default_collective_busy_poll = std::chrono::microseconds{100};

struct ucx_fabric_options {
  core::clock* clock = nullptr; ///< of real time; outlives the fabric
  identity self;                ///< instance 0: a random one is drawn
  /// Of the cluster, which peers must prove to hold; "": anybody may connect. It also guards all TCP ports of
  /// UCX in this process (socket_guard.hpp).
  std::string secret;
  std::string transports;      ///< as UCX_TLS, e.g. "tcp" or "posix,cma,self,tcp"; empty: UCX chooses
  core::duration busy_poll{0}; ///< how long a lane spins after its last work before it sleeps
  /// The same of the collective lane, where it is more: somebody computes nothing until its messages are
  /// there, and to sleep and wake takes many times as long as they do.
  core::duration collective_busy_poll = default_collective_busy_poll;
  std::vector<std::pair<std::string, std::string>> settings; ///< as lane_settings, of all lanes
  net::lane_settings lane_settings;
  /// Added to that of each lane's thread: where the CPU carries the bytes, its scheduler is what lanes share.
  /// Below 0 where that is permitted.
  std::array<int, lane_count> niceness{};
  /// Threads of each lane that help it with transfers of 16 MiB and more through shared memory; they are
  /// started by the first.
  unsigned copy_helpers = default_copy_helpers();
  std::uint32_t window_operations = 128;          ///< UCX operations in flight per peer and lane
  std::uint64_t max_operation_bytes = 4ULL << 20; ///< longer pieces are cut
  std::uint64_t max_message_bytes = 16ULL << 20;
};

/// Errors: invalid_argument (no clock), unsupported (names the lane and what UCX said).
core::result<std::unique_ptr<fabric>> open_ucx_fabric(ucx_fabric_options options);

/// How often the threads of a UCX fabric slept and woke; for tests and diagnosis.
std::uint64_t ucx_wake_ups(const fabric& of);

} // namespace dualpath::net

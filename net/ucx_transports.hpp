// The transports UCX has on this machine: what UCX_TLS can choose from. Opens every device for a moment;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::net {

/// Of a connection over TCP: what may be under way to a lane that is busy elsewhere, and what Linux adds to
/// it. Taken where net.core.rmem_max allows it.
inline constexpr std::uint64_t tcp_receive_buffer_bytes = 4ULL << 20;

struct ucx_transport {
  std::string name;   ///< as in UCX_TLS, e.g. rc_verbs, tcp, posix
  std::string device; ///< e.g. mlx5_0:1, eth0, memory
};

/// In UCX's order; what cannot be opened is left out.
std::vector<ucx_transport> list_ucx_transports();
/// Of the library in use, e.g. "1.13.1".
std::string ucx_version();

} // namespace dualpath::net

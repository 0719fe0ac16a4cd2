// The TCP ports of UCX, guarded by the cluster's secret. UCX has no authentication, and whoever speaks its
// wire format can abort a process. So nobody gets to speak to it: every connection between UCX's starts with
// a proof of the secret (connection_proof.hpp), which is read and judged before UCX sees the connection.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string_view>

namespace dualpath::net {

/// From now on, and to the end of the process: listeners that UCX opens admit only connections that start
/// with a proof, and connections that UCX makes start with one. A process belongs to one cluster: the secret
/// given last is that of all its connections. Sockets of all others than UCX are not touched. Errors:
/// unsupported, where UCX's calls do not reach the guard.
core::result<void> guard_ucx_sockets(std::string_view secret);

/// Connections to UCX's listeners that were closed because they did not start with a proof.
std::uint64_t ucx_connections_refused();

} // namespace dualpath::net

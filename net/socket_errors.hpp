// Keeps UCX from aborting the process when a peer disappears while both connect to each other (see the
// source).
#pragma once

#include <cstdint>

namespace dualpath::net {

/// Whether UCX's calls reach ours, which come before the C library's; a call also makes the linker take ours
/// in.
bool lost_peers_are_borne();

/// Requests for connections of which UCX was told that they were sent, over connections that had just ended.
std::uint64_t requests_to_lost_peers();

} // namespace dualpath::net

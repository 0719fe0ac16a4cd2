// Keeps the TLS connections of a process from failing each other (see the source).
#pragma once

namespace dualpath::net {

/// Whether the library's functions stand behind ours; a call also makes the linker take ours in.
bool tls_errors_kept_apart();

} // namespace dualpath::net

// May this peer be connected? The one rule both ends and both fabrics use, so that a pair that does not fit
// is refused by name before any byte of KV-cache moves.
#pragma once

#include "core/result.hpp"
#include "net/wire.hpp"

#include <string_view>

namespace dualpath::net {

/// Errors: refused, with a sentence such as "peer engine 3 has block size 32, ours is 64".
core::result<void> check_peer(const identity& ours, const wire::peer_identity& theirs);
/// Errors: refused, when a hello does not prove that its sender holds the cluster's secret. Without a secret
/// everybody does.
core::result<void> check_proof(const wire::hello& hello, std::string_view secret);
/// Errors: refused, when a hello names another process than the one it reached.
core::result<void> check_target(const identity& ours, std::uint64_t named_instance);

} // namespace dualpath::net

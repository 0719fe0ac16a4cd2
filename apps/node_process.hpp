// A process that is one node of a cluster, from joining to leaving: devices are made as the head orders, with
// what this process was told itself taking precedence.
#pragma once

#include "apps/options.hpp"
#include "net/bootstrap.hpp"
#include "proto/membership.hpp"

#include <cstdint>
#include <string>

namespace dualpath::apps {

struct node_identity {
  std::uint32_t rank = 0; ///< under a launcher
  proto::wanted_role role = proto::wanted_role::any;
  std::string listen_host; ///< for other nodes; "": the address from which the head is reached
};

/// Blocks until the cluster lets the node go; returns the exit status.
int serve_as_node(const raw_run_options& raw, const net::head_contact& head, const node_identity& who);

} // namespace dualpath::apps

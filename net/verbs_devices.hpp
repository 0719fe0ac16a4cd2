// The RDMA devices of this machine, as rdma-core and sysfs report them: what decides whether lanes can have
// virtual lanes or traffic classes of their own. Reads only; blocks briefly; thread-safe.
#pragma once

#include "core/policy/qos.hpp"
#include "core/result.hpp"

#include <vector>

namespace dualpath::net {

/// Every port of every device, in the order of rdma-core; empty where the machine has no RDMA device. Errors:
/// io (a device that cannot be opened or asked; names it).
core::result<std::vector<core::port_report>> list_verbs_ports();

} // namespace dualpath::net

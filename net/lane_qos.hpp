// Which UCX settings put the lanes of a fabric into the traffic classes of the network (spec §6)?
#pragma once

#include "core/policy/qos.hpp"
#include "net/ucx_fabric.hpp"

#include <span>

namespace dualpath::net {

/// For ucx_fabric_options::lane_settings. The ports are those of this machine; without an active one, and for
/// a lane without a class, there is nothing to set.
lane_settings lane_settings_for(const core::qos_config& config, std::span<const core::port_report> ports);

} // namespace dualpath::net

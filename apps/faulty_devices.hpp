// Puts a fault plan between the actors and the devices of a cluster.
#pragma once

#include "actors/settings.hpp"
#include "apps/cluster_devices.hpp"
#include "core/fault_plan.hpp"

namespace dualpath::apps {

/// Wraps fabric, compute device and store of every node; does nothing where the plan has no fault of devices.
/// What is late is heard of when whoever waits has given it up, by the deadlines in `settings`.
void inject_device_faults(const node_list& nodes, const core::fault_plan& plan,
                          const actors::cluster_settings& settings);

} // namespace dualpath::apps

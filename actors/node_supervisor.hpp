// Supervises one node: its storage NIC, its group leader and one engine supervisor a GPU. A child that fails
// here has used up its restart budget, or cannot be restarted alone: the node fails, and the cluster decides.
#pragma once

#include "actors/children.hpp"
#include "actors/devices.hpp"
#include "actors/settings.hpp"
#include "proto/interfaces.hpp"

#include <memory>

namespace dualpath::actors {

struct node_supervisor_state {
  static inline const char* name = "node_sup";
  std::shared_ptr<child_table> children;
};

proto::node_supervisor_actor::behavior_type
node_supervisor(proto::node_supervisor_actor::stateful_pointer<node_supervisor_state> self,
                settings_ptr settings, std::shared_ptr<const node_devices> node,
                proto::scheduler_actor scheduler, proto::directory_actor directory);

} // namespace dualpath::actors

// The root of the tree: block directory, request scheduler, one supervisor a node, and, once all engines are
// up, the replayer. Any child that fails here ends the run with its reason.
#pragma once

#include "actors/children.hpp"
#include "actors/devices.hpp"
#include "actors/replayer.hpp"
#include "actors/settings.hpp"
#include "proto/interfaces.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace dualpath::actors {

/// The nodes of other processes.
struct remote_nodes {
  proto::membership_actor membership;
  proto::begin_run wanted;   ///< scheduler and directory are filled in
  std::uint32_t engines = 0; ///< to wait for before the trace is replayed
};

struct cluster_plan {
  settings_ptr settings;
  std::vector<std::shared_ptr<const node_devices>> nodes; ///< of this process
  std::optional<remote_nodes> remote;
  std::shared_ptr<const std::vector<storage::block_name>> stored; ///< blocks in the store at start
  replay_options replay;
};

struct cluster_supervisor_state {
  static inline const char* name = "cluster_sup";
  std::shared_ptr<child_table> children;
};

/// `on_done` is called once, on an actor thread.
proto::cluster_supervisor_actor::behavior_type
cluster_supervisor(proto::cluster_supervisor_actor::stateful_pointer<cluster_supervisor_state> self,
                   std::shared_ptr<const cluster_plan> plan, replay_done on_done);

} // namespace dualpath::actors

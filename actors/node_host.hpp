// A process that is one node of a cluster: joins the head, makes devices for each run it is ordered to serve,
// runs the node's actors over them, and reports what it counted. The composition root says how devices are
// made.
#pragma once

#include "actors/control_plane.hpp"
#include "actors/devices.hpp"
#include "actors/settings.hpp"
#include "core/result.hpp"

#include <functional>
#include <memory>
#include <string>

namespace dualpath::actors {

/// What a node makes for a run. The order of destruction is the owner's: settings outlive the devices.
struct node_run {
  std::shared_ptr<void> keep_alive; ///< whatever the settings point to
  std::shared_ptr<cluster_settings> settings;
  std::shared_ptr<node_devices> node;
  proto::node_ready facts; ///< of the devices
};

struct node_host_options {
  std::string head_host;
  std::uint16_t head_port = 0;
  std::string listen_host;     ///< where other nodes reach this one; "": on all addresses
  std::string known_as;        ///< the name by which they do
  proto::join_cluster request; ///< agent and address are filled in
  core::duration join_deadline = std::chrono::seconds{30}; ///< for the head to be there
  /// Blocks while the devices are made.
  std::function<core::result<node_run>(const proto::run_order&)> make;
  /// Called once joined, with what drains this node when called; thread-safe.
  std::function<void(core::node_id, std::function<void()> drain)> on_joined;
};

/// Blocks until the cluster lets the node go. Errors: refused (with the head's sentence), disconnected (the
/// head is gone), and whatever ends the node's own actors.
core::result<void> host_node(control_plane& plane, const node_host_options& options);

} // namespace dualpath::actors

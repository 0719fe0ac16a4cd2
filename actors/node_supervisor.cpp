#include "actors/node_supervisor.hpp"

#include "actors/engine_supervisor.hpp"
#include "actors/group_leader.hpp"
#include "actors/stop_actor.hpp"
#include "actors/storage_nic.hpp"

namespace dualpath::actors {

proto::node_supervisor_actor::behavior_type
node_supervisor(proto::node_supervisor_actor::stateful_pointer<node_supervisor_state> self,
                settings_ptr settings, std::shared_ptr<const node_devices> node,
                proto::scheduler_actor scheduler, proto::directory_actor directory) {
  auto& children = self->state.children;
  auto leader = self->spawn<caf::monitored>(group_leader, settings, node->node, scheduler);
  auto nic = self->spawn<caf::monitored>(storage_nic, settings, node, directory, leader);
  children.emplace(leader.address(), "leader");
  children.emplace(nic.address(), "storage_nic");
  for (auto& devices : node->engines) {
    auto engine =
        self->spawn<caf::monitored>(engine_supervisor, settings, devices, node->counters, scheduler, nic);
    children.emplace(engine.address(), "engine " + std::to_string(devices->engine.value));
  }
  self->set_down_handler([self, id = node->node](caf::down_msg& down) {
    auto child = self->state.children.find(down.source);
    if (child == self->state.children.end()) return;
    self->quit(caf::make_error(caf::sec::runtime_error, "node " + std::to_string(id.value) + ": "
                                                            + child->second + ": "
                                                            + self->home_system().render(down.reason)));
  });
  self->set_exit_handler([self](caf::exit_msg& order) { self->quit(order.reason); });
  self->attach_functor([self] {
    for (auto& [child, what] : self->state.children) stop_actor(child);
  });
  return {
      [](const proto::tick&) {},
  };
}

} // namespace dualpath::actors

#include "actors/node_supervisor.hpp"

#include "actors/engine_supervisor.hpp"
#include "actors/group_leader.hpp"
#include "actors/storage_nic.hpp"

namespace dualpath::actors {

proto::node_supervisor_actor::behavior_type
node_supervisor(proto::node_supervisor_actor::stateful_pointer<node_supervisor_state> self,
                settings_ptr settings, std::shared_ptr<const node_devices> node,
                proto::scheduler_actor scheduler, proto::directory_actor directory) {
  auto& children = self->state.children;
  children = make_child_table(self);
  auto leader = self->spawn(group_leader, settings, node->node, scheduler);
  auto nic = self->spawn(storage_nic, settings, node, directory, leader);
  children->adopt(self, leader, "leader");
  children->adopt(self, nic, "storage_nic");
  for (auto& devices : node->engines) {
    children->adopt(self, self->spawn(engine_supervisor, settings, devices, node->counters, scheduler, nic),
                    "engine " + std::to_string(devices->engine.value));
  }
  self->set_down_handler([self, id = node->node](caf::down_msg& down) {
    auto child = self->state.children->remove(down.source);
    if (!child) return;
    self->quit(caf::make_error(caf::sec::runtime_error, "node " + std::to_string(id.value) + ": " + *child
                                                            + ": "
                                                            + self->home_system().render(down.reason)));
  });
  return {
      [](const proto::tick&) {},
  };
}

} // namespace dualpath::actors

#include "actors/cluster_supervisor.hpp"

#include "actors/block_directory.hpp"
#include "actors/node_supervisor.hpp"
#include "actors/request_scheduler.hpp"
#include "actors/stop_actor.hpp"

#include <numeric>

namespace dualpath::actors {

proto::cluster_supervisor_actor::behavior_type
cluster_supervisor(proto::cluster_supervisor_actor::stateful_pointer<cluster_supervisor_state> self,
                   std::shared_ptr<const cluster_plan> plan, replay_done on_done) {
  auto adopt = [self](const caf::actor_addr& child, std::string what) {
    self->monitor(child);
    self->state.children.emplace(child, std::move(what));
  };
  auto directory = self->spawn(block_directory, plan->stored);
  auto scheduler = self->spawn(request_scheduler, plan->settings, directory);
  adopt(directory.address(), "block_directory");
  adopt(scheduler.address(), "scheduler");
  for (auto& node : plan->nodes)
    adopt(self->spawn(node_supervisor, plan->settings, node, scheduler, directory).address(), "supervisor");
  self->set_down_handler([self, on_done](caf::down_msg& down) {
    auto child = self->state.children.find(down.source);
    if (child == self->state.children.end()) return;
    auto why = child->second + " failed: " + self->home_system().render(down.reason);
    self->state.children.erase(child);
    on_done(core::error{core::errc::io, why});
  });
  self->set_exit_handler([self](caf::exit_msg& order) { self->quit(order.reason); });
  self->attach_functor([self] {
    for (auto& [child, what] : self->state.children) stop_actor(child);
  });
  auto engines =
      std::accumulate(plan->nodes.begin(), plan->nodes.end(), std::uint32_t{0}, [](auto sum, auto& node) {
        return sum + static_cast<std::uint32_t>(node->engines.size());
      });
  self->request(scheduler, caf::infinite, proto::await_engines{engines})
      .then([self, plan, scheduler, on_done, adopt](std::uint32_t) {
        adopt(self->spawn(replayer, plan->settings, scheduler, plan->replay, on_done).address(), "replayer");
      });
  return {
      [](const proto::tick&) {},
  };
}

} // namespace dualpath::actors

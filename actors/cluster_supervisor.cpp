#include "actors/cluster_supervisor.hpp"

#include "actors/block_directory.hpp"
#include "actors/node_supervisor.hpp"
#include "actors/request_scheduler.hpp"

#include <numeric>

namespace dualpath::actors {

proto::cluster_supervisor_actor::behavior_type
cluster_supervisor(proto::cluster_supervisor_actor::stateful_pointer<cluster_supervisor_state> self,
                   std::shared_ptr<const cluster_plan> plan, replay_done on_done) {
  auto& children = self->state.children;
  children = make_child_table(self);
  auto directory = self->spawn(block_directory, plan->stored, plan->settings->usage);
  auto scheduler = self->spawn(request_scheduler, plan->settings, directory);
  children->adopt(self, directory, "block_directory");
  children->adopt(self, scheduler, "scheduler");
  for (auto& node : plan->nodes)
    children->adopt(self, self->spawn(node_supervisor, plan->settings, node, scheduler, directory),
                    "supervisor");
  self->set_down_handler([self, on_done](caf::down_msg& down) {
    auto child = self->state.children->remove(down.source);
    if (child)
      on_done(core::error{core::errc::io, *child + " failed: " + self->home_system().render(down.reason)});
  });
  auto engines =
      std::accumulate(plan->nodes.begin(), plan->nodes.end(), std::uint32_t{0}, [](auto sum, auto& node) {
        return sum + static_cast<std::uint32_t>(node->engines.size());
      });
  auto give_up = [self, on_done](const caf::error& why) {
    on_done(
        core::error{core::errc::disconnected, "the run could not start: " + self->home_system().render(why)});
  };
  auto replay = [self, plan, scheduler, on_done](std::uint32_t) {
    auto client = self->spawn(replayer, plan->settings, scheduler, plan->replay, on_done);
    self->state.children->adopt(self, client, "replayer");
  };
  if (plan->remote) {
    engines += plan->remote->engines;
    auto wanted = plan->remote->wanted;
    wanted.serve.scheduler = caf::actor_cast<caf::strong_actor_ptr>(scheduler);
    wanted.serve.directory = caf::actor_cast<caf::strong_actor_ptr>(directory);
    self->request(plan->remote->membership, caf::infinite, std::move(wanted))
        .then([=](const proto::outcome& started) {
          if (started.ok) {
            self->request(scheduler, caf::infinite, proto::await_engines{engines}).then(replay, give_up);
          } else {
            on_done(core::error{started.code, started.text});
          }
        });
  } else {
    self->request(scheduler, caf::infinite, proto::await_engines{engines}).then(replay, give_up);
  }
  return {
      [](const proto::tick&) {},
  };
}

} // namespace dualpath::actors

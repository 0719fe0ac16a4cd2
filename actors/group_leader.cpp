#include "actors/group_leader.hpp"

namespace dualpath::actors {

proto::leader_actor::behavior_type
group_leader(proto::leader_actor::stateful_pointer<group_leader_state> self, settings_ptr settings,
             core::node_id node, proto::scheduler_actor scheduler) {
  self->delayed_send(self, settings->fetch_interval, proto::tick{});
  return {
      [self](const proto::read_progress& progress) { self->state.progress = progress; },
      [self, settings, node, scheduler](const proto::tick& timer) {
        auto& progress = self->state.progress;
        self->send(scheduler,
                   proto::fetch_work{node, progress.partly_read_tokens, progress.read_tokens_per_s});
        self->delayed_send(self, settings->fetch_interval, timer);
      },
  };
}

} // namespace dualpath::actors

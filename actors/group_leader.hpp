// The leader of a group: all engines of a node, which have one role. It alone talks to the scheduler on the
// group's behalf: it fetches work periodically and reports how far the node's storage NIC has read (spec §7).
#pragma once

#include "actors/settings.hpp"
#include "proto/interfaces.hpp"

namespace dualpath::actors {

struct group_leader_state {
  static inline const char* name = "leader";
  proto::read_progress progress; ///< as last reported by the storage NIC
};

proto::leader_actor::behavior_type
group_leader(proto::leader_actor::stateful_pointer<group_leader_state> self, settings_ptr settings,
             core::node_id node, proto::scheduler_actor scheduler);

} // namespace dualpath::actors

// The compute NIC of a GPU: every byte into or out of the GPU passes here, KV transfers to other engines as
// well as host ↔ device copies, so that one place sees, paces and counts them all (spec §6). Each direction
// is paced on its own where a bandwidth is emulated. A transfer to an engine whose link is not up yet waits
// for it; one to an engine whose link could not be made tries again.
//
// A transfer ends by its deadline, as the fabric promises. A host ↔ device copy has a deadline here: an
// engine whose device does not even copy is given up, and its supervisor fences and restarts it.
#pragma once

#include "actors/devices.hpp"
#include "actors/settings.hpp"
#include "core/policy/token_bucket.hpp"
#include "proto/interfaces.hpp"

#include <deque>
#include <map>
#include <variant>

namespace dualpath::actors {

struct compute_nic_state {
  using self_pointer = proto::compute_nic_actor::stateful_pointer<compute_nic_state>;
  using promise = caf::typed_response_promise<proto::outcome>;
  struct queued {
    std::variant<proto::kv_transfer, proto::local_copy> work;
    std::uint64_t bytes = 0;
    promise answer;
  };
  /// One direction of the NIC, first in first out.
  struct direction {
    core::token_bucket bucket{0, 0};
    std::deque<queued> waiting;
    bool timer_set = false;
  };
  struct operation {
    promise answer;
    core::instant deadline = core::instant::max(); ///< of copies
    bool suspect = false;                          ///< seen beyond it once; its end may be in our mailbox
  };
  struct link {
    bool ready = false;
    fabric_link to;
    std::deque<queued> waiting;
  };

  static inline const char* name = "compute_nic";
  self_pointer self = nullptr;
  settings_ptr settings;
  devices_ptr devices;
  std::shared_ptr<core::node_counters> counters;
  direction inward, outward;
  std::map<core::engine_id, proto::engine_up> peers; ///< alive, as far as we know
  std::map<core::engine_id, link> links;
  std::map<core::engine_id, std::vector<std::byte>> pool_exports;
  std::map<std::uint64_t, operation> in_flight;
  std::map<std::uint64_t, caf::typed_response_promise<proto::devices_idle>> cuts;
  std::uint64_t next_operation = 1;
  bool watching = false;

  void enqueue(queued item);
  void pump(direction& way);
  void issue(queued item);
  void issue_transfer(const proto::kv_transfer& transfer, const fabric_link& to, std::uint64_t operation);
  void issue_copy(const proto::local_copy& copy, std::uint64_t operation);
  void watch();
  void find_overdue();
  void connect(const proto::engine_up& peer);
  void connected(const proto::link_ready& ready);
  void forget(core::engine_id peer);
  void cut(core::engine_id peer, caf::typed_response_promise<proto::devices_idle> answer);
};

proto::compute_nic_actor::behavior_type compute_nic(compute_nic_state::self_pointer self,
                                                    settings_ptr settings, devices_ptr devices,
                                                    std::shared_ptr<core::node_counters> counters);

} // namespace dualpath::actors

// What the scheduler does when nodes come and go while it serves: a lost one takes its engines along and is
// never fenced by its own supervisors, so the survivors cut it off; a draining one gets no new work, and may
// leave once nothing of it is under way.
#include "actors/request_scheduler.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace dualpath::actors {

void request_scheduler_state::node_lost(const proto::node_lost& event) {
  std::vector<core::engine_id> gone;
  for (auto& [id, engine] : engines)
    if (engine.info.node == event.node && !engine.lost) gone.push_back(id);
  if (!gone.empty()) entry_of(engines.at(gone.front()).info.role).lost_nodes.push_back(event.why);
  for (auto id : gone) {
    auto& engine = engines.at(id);
    engine.returning.reset();
    if (engine.alive) {
      engine_down({id, engine.info.incarnation, event.why, true});
      continue;
    }
    // It was being restarted, which has been told as a crash: now nobody will fence it but the survivors.
    engine.lost = true;
    loads.retire(id);
    for (auto& [other_id, other] : engines)
      if (other.alive) tell(other.info, proto::engine_down{id, engine.info.incarnation, event.why, true});
    if (engine.info.role == core::engine_role::prefill) release_orphans(id);
  }
  draining.erase(event.node);
  rebalance();
  // One of those that the start was waiting for; a cluster that starts empty waits for any.
  std::erase_if(waiters, [&](waiter& w) {
    if (w.count == 0) return false;
    w.answer.deliver(caf::make_error(caf::sec::runtime_error, event.why));
    return true;
  });
}

void request_scheduler_state::drain_node(core::node_id node, caf::strong_actor_ptr asked_by) {
  draining[node] = std::move(asked_by);
  auto decodes = false;
  for (auto& [id, engine] : engines) {
    if (engine.info.node != node) continue;
    engine.draining = true;
    loads.retire(id);
    decodes |= engine.info.role == core::engine_role::decode;
  }
  if (decodes) leave_dead_group(node);
  std::vector<core::request_id> waiting_here;
  for (auto& [id, entry] : requests) {
    auto on = [&](const std::optional<core::engine_id>& engine) {
      return engine && engines.at(*engine).info.node == node;
    };
    if (!entry.dispatched && (on(entry.prefill) || on(entry.decode))) waiting_here.push_back(id);
  }
  for (auto id : waiting_here) take_back(id);
  rebalance();
  check_drained(node);
}

void request_scheduler_state::check_drained(core::node_id node) {
  auto asked_by = draining.find(node);
  if (asked_by == draining.end()) return;
  auto busy = std::any_of(engines.begin(), engines.end(), [this, node](auto& entry) {
    return entry.second.info.node == node
           && (loads.requests_of(entry.first) > 0 || !entry.second.fences.empty());
  });
  if (busy) return;
  self->send(caf::actor_cast<proto::membership_actor>(asked_by->second), proto::node_drained{node});
  draining.erase(asked_by);
}

/// How many nodes serve has changed: so may the bounds of spec §5 have.
void request_scheduler_state::rebalance() {
  std::set<core::node_id> prefill, decode;
  for (auto& [id, engine] : engines) {
    if (!engine.alive || engine.draining) continue;
    (engine.info.role == core::engine_role::prefill ? prefill : decode).insert(engine.info.node);
  }
  say_what_is_missing();
  watch_roles();
  auto told =
      balance.reshape(static_cast<std::uint32_t>(prefill.size()), static_cast<std::uint32_t>(decode.size()));
  if (!told) return;
  core::log_event(balance.binds() ? core::log_level::warn : core::log_level::info, "bounds_recomputed",
                  {{"prefill_nodes", prefill.size()},
                   {"decode_nodes", decode.size()},
                   {"decode_share_at_least", balance.share().lowest},
                   {"decode_share_at_most", balance.share().highest},
                   {"why", *told}});
}

} // namespace dualpath::actors

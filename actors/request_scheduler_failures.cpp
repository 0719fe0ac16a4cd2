// What the scheduler does when an engine dies, comes back, or gives a request up; and the actor's handlers.
//
// A request in prefill has two sides. When one dies, the other is told to abandon the request, and only when
// it has answered, its transfers fenced, is the request routed again, or the dead engine's memory used by its
// next incarnation. A dead prefill engine is fenced by its own supervisor, before it comes back; only then
// may the landing be given away. Hit blocks that the other side has, or is reading, it keeps, and the request
// comes back to it: core/policy/adoption. So it does where storage of one side fails to read a part.
#include "actors/request_scheduler.hpp"

#include "actors/deliver.hpp"
#include "core/log.hpp"

#include <algorithm>

namespace dualpath::actors {

void request_scheduler_state::engine_down(const proto::engine_down& event) {
  auto found = engines.find(event.engine);
  if (found == engines.end() || found->second.info.incarnation != event.incarnation || !found->second.alive)
    return;
  auto& engine = found->second;
  engine.alive = false;
  engine.lost = event.lost;
  event.lost ? loads.retire(event.engine) : loads.down(event.engine);
  engine.held.clear();
  engine.kept.clear();
  if (engine.info.role == core::engine_role::decode)
    std::erase_if(orders, [&](auto& order) { return order.first.second == event.engine; });
  core::log_event(core::log_level::warn, "engine_down",
                  {{"node", engine.info.node},
                   {"engine", event.engine},
                   {"incarnation", event.incarnation},
                   {"why", event.why}});
  for (auto& [id, other] : engines)
    if (other.alive) tell(other.info, event);
  if (engine.info.role == core::engine_role::decode) leave_dead_group(engine.info.node);
  std::vector<core::request_id> affected;
  for (auto& [id, entry] : requests)
    if (entry.prefill == event.engine || entry.decode == event.engine) affected.push_back(id);
  for (auto id : affected) {
    auto& entry = requests.at(id);
    if (!entry.dispatched) {
      take_back(id);
      continue;
    }
    auto* lease = ledger.find(id);
    if (lease->stage == core::stage::decode) {
      interrupt(id);
    } else if (engine.info.role == core::engine_role::prefill) {
      engine.fences[id] =
          entry.request.epoch; // until the engine is back, its transfers may still touch the landing
    } else {
      engine.fences[id] = entry.request.epoch;
      send_abandon(*entry.prefill, entry.request, true);
    }
  }
  if (event.lost && engine.info.role == core::engine_role::prefill) release_orphans(event.engine);
}

void request_scheduler_state::leave_dead_group(core::node_id node) {
  if (loads.has_live(node, core::engine_role::decode)) return;
  auto waiting_here = std::exchange(nodes[node].waiting, {});
  for (auto id : waiting_here) loads.remove_waiting(node, padded_tokens(requests.at(id).request));
  for (auto id : waiting_here) join_decode_group(id);
}

void request_scheduler_state::interrupt(core::request_id id) {
  auto& entry = requests.at(id);
  auto lease = ledger.revoke(id);
  charge(*entry.decode, entry.request, -1);
  entry.request.epoch = lease->epoch;
  entry.request.attempt += 1;
  entry.awaiting_client = true;
  entry.decode.reset();
  if (!clients.at(caf::actor_cast<caf::actor_addr>(entry.request.client))) {
    close(id, entry.request.epoch);
    return;
  }
  deliver(self, *settings, caf::actor_cast<proto::client_actor>(entry.request.client),
          proto::interrupted{id});
}

void request_scheduler_state::send_abandon(core::engine_id id, const proto::request& request,
                                           bool keep_hits) {
  auto& engine = engines.at(id);
  proto::abandon order{request.id, request.epoch, keep_hits};
  if (!engine.alive) {
    // Dead as well: it is fenced when it comes back.
    engine.fences[request.id] = request.epoch;
    return;
  }
  orders[{request.id, id}] = {order, stock_round};
  give_order(id, order);
}

void request_scheduler_state::give_order(core::engine_id id, const proto::abandon& order) {
  auto& engine = engines.at(id);
  if (engine.info.role == core::engine_role::prefill) {
    deliver(self, *settings, caf::actor_cast<proto::prefill_actor>(engine.info.actor), order);
  } else {
    deliver(self, *settings, caf::actor_cast<proto::decode_actor>(engine.info.actor), order);
  }
}

void request_scheduler_state::abandoned(const proto::abandoned& event) {
  auto id = event.request;
  auto epoch = event.epoch;
  std::erase_if(orders,
                [&](auto& order) { return order.first.first == id && order.second.order.epoch <= epoch; });
  for (auto& [engine_id, engine] : engines) {
    auto fence = engine.fences.find(id);
    // An answer to an order of an earlier attempt says nothing of this one.
    if (fence == engine.fences.end() || core::decode_epoch(fence->second) < epoch || fence->second > epoch)
      continue;
    engine.fences.erase(fence);
    if (!engine.fences.empty() || !engine.returning) continue;
    auto info = std::move(*engine.returning);
    engine.returning.reset();
    admit_engine(info);
  }
  // Handed over while the order was on its way: the decode engine that it went to is dead or has let go of it
  // as well.
  std::optional<kept_at_engine> kept;
  if (event.kept.count > 0) kept = {event.engine, epoch, {engines.at(event.engine).info.role, event.kept}};
  auto current = ledger.is_current(id, epoch) || ledger.is_current(id, core::decode_epoch(epoch));
  if (current) route_again(id, kept);
}

void request_scheduler_state::engine_up(const proto::engine_up& event) {
  auto& engine = engines[event.engine];
  if (event.role == core::engine_role::decode && !engine.fences.empty()) {
    engine.returning = event;
    return;
  }
  admit_engine(event);
  if (event.role == core::engine_role::prefill) release_orphans(event.engine);
}

void request_scheduler_state::engine_fenced(const proto::engine_fenced& event) {
  auto found = engines.find(event.engine);
  if (found == engines.end() || found->second.alive || found->second.info.incarnation != event.incarnation)
    return;
  if (found->second.info.role == core::engine_role::prefill) release_orphans(event.engine);
}

/// A prefill engine that is fenced, or lost for good and cut off, has ended all its transfers: the landings
/// of its old requests can be given up.
void request_scheduler_state::release_orphans(core::engine_id engine) {
  auto orphans = std::exchange(engines.at(engine).fences, {});
  for (auto& [id, epoch] : orphans) {
    auto found = requests.find(id);
    if (found == requests.end() || !ledger.is_current(id, epoch)) continue;
    auto& entry = found->second;
    if (engines.at(*entry.decode).alive) {
      send_abandon(*entry.decode, entry.request, true);
    } else {
      abandoned({id, entry.request.epoch}); // both sides are fenced: nothing touches the landing any more
    }
  }
  // Neither does anything of what it was told to abandon, and died before it answered.
  std::vector<proto::abandon> unanswered;
  for (auto& [key, order] : orders)
    if (key.second == engine) unanswered.push_back(order.order);
  for (auto& order : unanswered) abandoned({order.request, order.epoch});
}

void request_scheduler_state::admit_engine(const proto::engine_up& event) {
  auto& engine = engines[event.engine];
  engine.info = event;
  engine.alive = true;
  loads.up(event.engine, event.node, event.role, event.hbm_tokens);
  if (engine.draining) loads.retire(event.engine);
  nodes[event.node];
  core::log_event(core::log_level::info, "engine_up",
                  {{"node", event.node},
                   {"engine", event.engine},
                   {"role", to_string(event.role)},
                   {"incarnation", event.incarnation}});
  for (auto& [id, other] : engines) {
    if (!other.alive || id == event.engine) continue;
    tell(other.info, event);
    tell(event, other.info);
  }
  answer_waiters();
  rebalance();
  if (event.role == core::engine_role::decode)
    for (auto id : std::exchange(without_group, {})) join_decode_group(id);
}

void request_scheduler_state::failed(const proto::request_failed& event) {
  // The hand-over may still be on its way from the prefill engine.
  auto before = core::prefill_epoch(event.epoch);
  if (ledger.is_current(event.request, before)) handed_over({event.request, before});
  if (!ledger.is_current(event.request, event.epoch)) return;
  auto& entry = requests.at(event.request);
  reads_failed(entry, event.failed_reads);
  entry.request.failed_reads.add(event.failed_reads);
  auto for_good = event.why.code == core::errc::invalid_argument || event.why.code == core::errc::corrupt_kv;
  auto give_up = for_good || entry.request.attempt >= proto::max_attempts;
  auto landed = event.landing_kept && engines.at(*entry.decode).alive;
  if (landed) send_abandon(*entry.decode, entry.request, !give_up);
  if (give_up) {
    reject(event.request, event.why.text);
  } else if (ledger.find(event.request)->stage == core::stage::decode) {
    interrupt(event.request);
  } else if (!landed) { // else once the decode engine has told what it keeps
    std::optional<kept_at_engine> kept;
    if (event.kept.count > 0) kept = {*entry.prefill, event.epoch, {core::engine_role::prefill, event.kept}};
    route_again(event.request, kept);
  }
}

void request_scheduler_state::leave_decode_group(const scheduled_request& entry) {
  if (std::erase(nodes[entry.decode_group].waiting, entry.request.id) > 0)
    loads.remove_waiting(entry.decode_group, padded_tokens(entry.request));
}

bool request_scheduler_state::can_keep(core::engine_id id) const {
  auto& engine = engines.at(id);
  return engine.alive && !engine.draining;
}

/// The engine may let go of what it keeps of the request.
void request_scheduler_state::forget_kept(scheduled_request& entry) {
  if (!entry.kept) return;
  auto [engine, epoch, hits] = *std::exchange(entry.kept, std::nullopt);
  if (engines.at(engine).alive) give_order(engine, {entry.request.id, epoch});
}

/// From the engines that were chosen for it, but for the one that keeps some of its hits.
void request_scheduler_state::leave_sides(scheduled_request& entry) {
  auto leave = [&](std::optional<core::engine_id>& side) {
    if (!side || (entry.kept && *side == entry.kept->engine)) return;
    charge(*std::exchange(side, std::nullopt), entry.request, -1);
  };
  if (entry.kept) {
    auto engine = entry.kept->engine;
    auto on_route = entry.prefill == engine || entry.decode == engine;
    if (!on_route || !can_keep(engine)) forget_kept(entry);
  }
  leave(entry.prefill);
  leave(entry.decode);
}

void request_scheduler_state::take_back(core::request_id id) {
  auto& entry = requests.at(id);
  leave_sides(entry);
  leave_decode_group(entry);
  std::erase(waiting, id);
  std::erase(without_group, id);
  flights.acknowledge(id);
  if (!entry.prefill) waiting.push_front(id);
  if (!entry.decode) join_decode_group(id);
}

void request_scheduler_state::route_again(core::request_id id, std::optional<kept_at_engine> kept) {
  auto& entry = requests.at(id);
  auto lease = ledger.revoke(id);
  // What the attempt before had kept it has taken over, or not come to.
  if (entry.kept && (!kept || entry.kept->engine != kept->engine)) forget_kept(entry);
  entry.kept = kept;
  leave_sides(entry);
  reads_over(entry);
  unpin(entry);
  flights.acknowledge(id);
  auto again = scheduled_request{};
  again.request = std::move(entry.request);
  again.request.epoch = lease->epoch;
  again.request.attempt += 1;
  again.kept = entry.kept;
  again.prefill = entry.prefill;
  again.decode = entry.decode;
  entry = std::move(again);
  enqueue(id);
}

void request_scheduler_state::reject(core::request_id id, const std::string& why) {
  auto& entry = requests.at(id);
  reads_over(entry);
  if (entry.prefill) charge(*entry.prefill, entry.request, -1);
  if (entry.decode) charge(*entry.decode, entry.request, -1);
  leave_decode_group(entry);
  std::erase(waiting, id);
  std::erase(without_group, id);
  self->send(caf::actor_cast<proto::client_actor>(entry.request.client), proto::rejected{id, why});
  close(id, ledger.find(id)->epoch);
}

proto::scheduler_actor::behavior_type request_scheduler(request_scheduler_state::self_pointer self,
                                                        settings_ptr settings,
                                                        proto::directory_actor directory) {
  self->state.self = self;
  self->state.settings = std::move(settings);
  self->state.balance = core::read_balance{self->state.settings->node_shape};
  self->state.read_pause =
      core::read_pause{self->state.settings->store_retry_interval, self->state.settings->deadline};
  self->state.directory = std::move(directory);
  for (auto& role : self->state.roles) role.watch = core::role_watch{self->state.settings->role_patience};
  self->state.flights =
      core::flight_budget{self->state.settings->control_in_flight_bytes, self->state.settings->flights};
  self->state.leases_in_use = core::open_share(self->state.settings->usage, core::resource::leases);
  self->set_down_handler([self](const caf::down_msg& down) { self->state.client_down(down.source); });
  self->delayed_send(self, self->state.settings->deadline, proto::tick{});
  return {
      [self](proto::submit& round) { self->state.submit(std::move(round.request)); },
      [self](const proto::fetch_work& report) { self->state.fetch(report); },
      [self](const proto::part_read& event) { self->state.part_read(event); },
      [self](const proto::hits_read& event) { self->state.hits_read(event); },
      [self](const proto::handed_over& event) { self->state.handed_over(event); },
      [self](const proto::request_finished& event) { self->state.finished(event); },
      [self](const proto::request_failed& event) { self->state.failed(event); },
      [self](const proto::abandoned& event) { self->state.abandoned(event); },
      [self](const proto::engine_up& event) { self->state.engine_up(event); },
      [self](const proto::engine_down& event) { self->state.engine_down(event); },
      [self](const proto::node_lost& event) { self->state.node_lost(event); },
      [self](const proto::drain_node& order) { self->state.drain_node(order.node, self->current_sender()); },
      [self](const proto::engine_fenced& event) { self->state.engine_fenced(event); },
      [self](const proto::stock& event) { self->state.compare_stock(event); },
      [self](const proto::withdrawn& event) { self->state.withdrawn(event.request); },
      [self](const proto::tick& timer) {
        if (timer.id == request_scheduler_state::roles_tick) {
          self->state.looks_for_nodes = false;
          self->state.watch_roles();
          return;
        }
        self->state.take_stock();
        self->delayed_send(self, self->state.settings->deadline, timer);
      },
      [self](const proto::await_engines& ask) -> caf::result<std::uint32_t> {
        auto answer = self->make_response_promise<std::uint32_t>();
        self->state.waiters.push_back({ask.count, answer});
        self->state.answer_waiters();
        self->state.say_what_is_missing();
        return answer;
      },
  };
}

} // namespace dualpath::actors

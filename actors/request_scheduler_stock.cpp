// Stocktaking: every deadline the scheduler asks each engine what it holds and compares the answer with the
// ledger. Between two actors messages arrive in order, so an engine that was asked after it was given a
// request, and does not have it, has lost it or has sent word of its end, which then was lost. Only what
// moves between the two engines may still be on its way, for which one more round is waited.
#include "actors/request_scheduler.hpp"

#include "core/log.hpp"

namespace dualpath::actors {

void request_scheduler_state::take_stock() {
  ++stock_round;
  auto oldest = ledger.oldest_epoch();
  for (auto& [id, engine] : engines)
    if (engine.alive) tell(engine.info, proto::take_stock{stock_round, oldest});
}

void request_scheduler_state::compare_stock(const proto::stock& event) {
  auto found = engines.find(event.engine);
  if (found == engines.end() || !found->second.alive || found->second.info.incarnation != event.incarnation)
    return;
  auto& engine = found->second;
  engine.held.clear();
  engine.kept.clear();
  for (std::size_t i = 0; i < event.requests.size(); ++i) {
    held_request one{event.requests[i], event.epochs[i]};
    engine.held.insert(one);
    if (i + event.kept >= event.requests.size()) engine.kept.insert(one);
  }
  repeat_orders(event.engine, event.round);
  find_missing(event.engine, event.round);
  drop_strays(event.engine);
}

void request_scheduler_state::repeat_orders(core::engine_id engine, std::uint64_t round) {
  std::vector<proto::abandon> repeated, answered;
  auto& held = engines.at(engine).held;
  for (auto& [key, order] : orders) {
    if (key.second != engine || order.since_round >= round) continue;
    auto epoch = order.order.epoch;
    auto holds = held.contains({key.first, epoch}) || held.contains({key.first, core::decode_epoch(epoch)})
                 || held.contains({key.first, core::prefill_epoch(epoch)});
    (holds ? repeated : answered).push_back(order.order);
  }
  for (auto& order : repeated) give_order(engine, order);
  for (auto& order : answered) {
    core::log_event(core::log_level::warn, "abandoned_without_word",
                    {{"request", order.request}, {"epoch", order.epoch}, {"engine", engine}});
    abandoned({order.request, order.epoch});
  }
}

void request_scheduler_state::find_missing(core::engine_id engine, std::uint64_t round) {
  auto& stock = engines.at(engine);
  // Hits that it keeps of an attempt which the ledger takes to go on: word of its end was lost.
  auto works_on = [&](const held_request& one) {
    return stock.held.contains(one) && !stock.kept.contains(one);
  };
  std::vector<core::request_id> prefilling, decoding;
  for (auto& [id, entry] : requests) {
    auto* lease = ledger.find(id);
    if (lease->stage == core::stage::waiting || lease->owner != engine || entry.since_round >= round
        || works_on({id, lease->epoch}))
      continue;
    (lease->stage == core::stage::prefill ? prefilling : decoding).push_back(id);
  }
  for (auto id : prefilling) missing_in_prefill(id, round);
  for (auto id : decoding) {
    auto& entry = requests.at(id);
    if (entry.since_round + 1 >= round) continue;
    core::log_event(core::log_level::warn, "request_lost_in_decode",
                    {{"request", id}, {"epoch", entry.request.epoch}, {"engine", engine}});
    send_abandon(engine, entry.request, false);
    interrupt(id);
  }
}

void request_scheduler_state::missing_in_prefill(core::request_id id, std::uint64_t round) {
  auto& entry = requests.at(id);
  auto epoch = entry.request.epoch;
  auto& decode = engines.at(*entry.decode);
  // Where the decode engine is dead, the prefill engine has its order, which settles the matter.
  if (!decode.alive || orders.contains({id, *entry.decode})) return;
  if (decode.held.contains({id, core::decode_epoch(epoch)})) {
    handed_over({id, epoch});
  } else if (entry.since_round + 1 < round) {
    core::log_event(core::log_level::warn, "request_lost_in_prefill",
                    {{"request", id}, {"epoch", epoch}, {"engine", *entry.prefill}});
    send_abandon(*entry.decode, entry.request, true);
  }
}

/// What an engine holds of requests that are over or elsewhere by now.
void request_scheduler_state::drop_strays(core::engine_id engine) {
  for (auto& [id, epoch] : engines.at(engine).held) {
    auto known = requests.find(id);
    if (known != requests.end()) {
      auto now = known->second.request.epoch;
      if (epoch == now || epoch == core::prefill_epoch(now) || epoch == core::decode_epoch(now)) continue;
      auto& kept = known->second.kept;
      if (kept && kept->engine == engine && kept->epoch == epoch) continue;
    }
    give_order(engine, {id, epoch});
  }
}

void request_scheduler_state::withdrawn(core::request_id id) {
  auto found = requests.find(id);
  if (found == requests.end() || !found->second.awaiting_client) return;
  close(id, found->second.request.epoch);
}

/// Nobody resumes what it was interrupted in; what engines still work on ends by itself.
void request_scheduler_state::client_down(const caf::actor_addr& client) {
  clients[client] = false;
  std::vector<core::request_id> waiting_for_it;
  for (auto& [id, entry] : requests)
    if (entry.awaiting_client && caf::actor_cast<caf::actor_addr>(entry.request.client) == client)
      waiting_for_it.push_back(id);
  for (auto id : waiting_for_it) close(id, requests.at(id).request.epoch);
}

} // namespace dualpath::actors

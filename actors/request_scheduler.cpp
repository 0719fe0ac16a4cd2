#include "actors/request_scheduler.hpp"

#include "actors/deliver.hpp"
#include "core/log.hpp"
#include "core/policy/decode_choice.hpp"
#include "core/units.hpp"

#include <algorithm>

namespace dualpath::actors {

void request_scheduler_state::submit(proto::request request) {
  auto id = request.id;
  self->send(caf::actor_cast<proto::client_actor>(request.client), proto::accepted{id});
  auto known = requests.find(id);
  if (known != requests.end()) {
    // Submitted again after an interruption; anything else is a repeat of what we have.
    if (!known->second.awaiting_client) return;
    request.attempt = known->second.request.attempt;
    request.epoch = known->second.request.epoch;
    known->second = scheduled_request{};
    known->second.request = std::move(request);
  } else {
    auto lease = ledger.open(id);
    if (!lease) return;
    auto client = caf::actor_cast<caf::actor>(request.client);
    if (clients.emplace(client.address(), true).second) self->monitor(client);
    leases_in_use.set(ledger.size());
    request.epoch = lease->epoch;
    requests[id].request = std::move(request);
  }
  enqueue(id);
}

void request_scheduler_state::enqueue(core::request_id id) {
  auto& entry = requests.at(id);
  // One that an engine keeps something of waits for the other side only, and not behind those that hold
  // nothing.
  entry.arrival = entry.kept ? 0 : ++arrivals;
  if (!entry.prefill) entry.kept ? waiting.push_front(id) : waiting.push_back(id);
  if (!entry.decode) join_decode_group(id);
}

void request_scheduler_state::join_decode_group(core::request_id id) {
  auto& entry = requests.at(id);
  if (loads.decode_groups().empty()) {
    without_group.push_back(id);
    return;
  }
  entry.decode_group = loads.decode_groups()[core::choose_decode_group(loads.decode_group_tokens())];
  nodes[entry.decode_group].waiting.push_back(id);
  loads.add_waiting(entry.decode_group, padded_tokens(entry.request));
}

void request_scheduler_state::fetch(const proto::fetch_work& report) {
  nodes[report.node].partly_read_tokens = report.partly_read_tokens;
  nodes[report.node].read_tokens_per_s = report.read_tokens_per_s;
  choose_prefill_for(report.node);
  choose_decode_for(report.node);
}

void request_scheduler_state::choose_prefill_for(core::node_id node) {
  if (waiting.empty()) return;
  auto group = loads.loads_of(node, core::engine_role::prefill, nodes[node].read_queue().tokens);
  if (group.empty()) return;
  // One request at a time, which the policy takes as it takes them together: the queue of a cluster is long,
  // and a group takes little of it.
  while (!waiting.empty() && flights.has_room(node)) {
    auto id = waiting.front();
    auto& entry = requests.at(id);
    core::waiting_request head{id, entry.request.context_tokens()};
    auto chosen = core::choose_prefill({&head, 1}, group, settings->thresholds);
    if (chosen.empty()) return;
    waiting.pop_front();
    auto engine = chosen.front().engine;
    std::find_if(group.begin(), group.end(), [engine](auto& load) {
      return load.engine == engine;
    })->unfinished_tokens += head.tokens;
    entry.prefill = engine;
    charge(engine, entry.request, +1);
    dispatch_if_ready(id);
  }
}

void request_scheduler_state::choose_decode_for(core::node_id node) {
  auto& queue = nodes[node].waiting;
  if (queue.empty()) return;
  auto group = loads.loads_of(node, core::engine_role::decode, nodes[node].read_queue().tokens);
  if (group.empty()) return;
  if (auto head_tokens = padded_tokens(requests.at(queue.front()).request);
      head_tokens > loads.most_hbm_tokens(node)) {
    reject(queue.front(), "a request of " + std::to_string(head_tokens)
                              + " tokens does not fit the HBM of any decode engine; give it more (--hbm)");
    return;
  }
  auto fifo = fitting_prefix(queue, group);
  auto chosen = core::choose_decode(fifo, std::move(group));
  queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(chosen.size()));
  for (auto& [id, engine] : chosen) {
    auto& entry = requests.at(id);
    loads.remove_waiting(node, padded_tokens(entry.request));
    entry.decode = engine;
    charge(engine, entry.request, +1);
    dispatch_if_ready(id);
  }
}

std::vector<core::waiting_request>
request_scheduler_state::fitting_prefix(const std::deque<core::request_id>& queue,
                                        const std::vector<core::engine_load>& group) const {
  std::uint64_t free_tokens = 0;
  for (auto& load : group) free_tokens += load.free_hbm_tokens;
  std::vector<core::waiting_request> prefix;
  for (auto id : queue) {
    auto tokens = padded_tokens(requests.at(id).request);
    if (tokens > free_tokens) break;
    free_tokens -= tokens;
    prefix.push_back({id, tokens});
  }
  return prefix;
}

void request_scheduler_state::dispatch_if_ready(core::request_id id) {
  auto& entry = requests.at(id);
  if (!entry.prefill || !entry.decode || entry.dispatched) return;
  auto node = engines.at(*entry.prefill).info.node;
  if (!flights.has_room(node)) {
    wait_for_prefill_again(id);
    return;
  }
  flights.give(node, id, proto::wire_bytes(entry.request));
  if (settings->policy == core::policy::recompute || entry.request.keys.empty()) {
    dispatch(id, 0);
    return;
  }
  entry.pinned = true;
  // Only now: whatever was stored while the request waited is a hit.
  self->request(directory, caf::infinite, proto::find_prefix{id, entry.request.keys})
      .then([this](const proto::prefix_found& found) {
        auto still_waits = requests.find(found.request);
        if (still_waits == requests.end()) return;
        auto& entry = still_waits->second;
        if (entry.prefill && entry.decode && !entry.dispatched) dispatch(found.request, found.blocks);
      });
}

/// Its node may be given no more for now, but another perhaps. It keeps its decode engine, and its turn. A
/// request without one does not count as given: it would keep others from the prefill engines that these need
/// before they leave the decode engines it waits for. What its prefill engine keeps of it is given up.
void request_scheduler_state::wait_for_prefill_again(core::request_id id) {
  auto& entry = requests.at(id);
  if (entry.kept && entry.kept->engine == *entry.prefill) forget_kept(entry);
  charge(*entry.prefill, entry.request, -1);
  entry.prefill.reset();
  auto later = std::find_if(waiting.begin(), waiting.end(),
                            [&](auto other) { return requests.at(other).arrival > entry.arrival; });
  waiting.insert(later, id);
}

void request_scheduler_state::dispatch(core::request_id id, std::uint32_t found_blocks) {
  auto& entry = requests.at(id);
  auto& request = entry.request;
  auto usable = settings->layout.usable_hit_blocks(request.context_tokens());
  auto hit_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(found_blocks, usable));
  auto& prefill = engines.at(*entry.prefill);
  auto& decode = engines.at(*entry.decode);
  core::path_inputs inputs;
  inputs.prefill = nodes[prefill.info.node].read_queue();
  inputs.decode = nodes[decode.info.node].read_queue();
  inputs.turn = turn;
  inputs.share = balance.share();
  inputs.same_node = prefill.info.node == decode.info.node;
  inputs.failed = request.failed_reads;
  auto now = settings->clock->now();
  inputs.avoided = {read_pause.avoids(prefill.info.node, now), read_pause.avoids(decode.info.node, now)};
  auto kept = entry.kept ? entry.kept->hits : core::kept_hits{};
  auto chosen = core::adopt_hits(settings->policy, inputs, hit_blocks, settings->layout.block_tokens, kept);
  auto& reads = chosen.reads;
  request.hits = chosen.hits;
  if (reads.blocks() > 0) ++turn;
  balance.placed(std::uint64_t{reads.prefill_blocks} * settings->layout.block_tokens,
                 std::uint64_t{reads.decode_blocks} * settings->layout.block_tokens);
  place_read(entry.prefill_read, prefill.info.node, reads.prefill_blocks);
  place_read(entry.decode_read, decode.info.node, reads.decode_blocks);
  request.prefill = *entry.prefill;
  request.decode = *entry.decode;
  auto lease = ledger.hand_over(id, request.epoch, core::stage::prefill, request.prefill, {request.decode});
  request.epoch = lease->epoch;
  entry.dispatched = true;
  entry.since_round = stock_round;
  core::log_event(core::log_level::debug, "request_dispatched",
                  {{"request", id},
                   {"epoch", request.epoch},
                   {"prefill", request.prefill},
                   {"decode", request.decode},
                   {"path", to_string(request.hits.path())},
                   {"prefill_blocks", request.hits.prefill_blocks},
                   {"decode_blocks", request.hits.decode_blocks},
                   {"kept_blocks", chosen.kept_blocks()}});
  deliver(self, *settings, caf::actor_cast<proto::prefill_actor>(prefill.info.actor),
          proto::prefill_work{request});
}

void request_scheduler_state::part_read(const proto::part_read& event) {
  if (!ledger.is_current(event.request, event.epoch)) return;
  flights.acknowledge(event.request);
  auto& entry = requests.at(event.request);
  auto decode = event.side == core::engine_role::decode;
  auto& read = decode ? entry.decode_read : entry.prefill_read;
  if (event.unreadable) {
    reads_failed(entry, {.prefill = !decode, .decode = decode});
    // Neither side could read it: whoever comes next need not try.
    auto block = event.good_blocks + (decode ? 0 : entry.request.hits.decode_blocks);
    self->send(directory, proto::block_lost{entry.request.keys[block]});
  } else if (read.outstanding_tokens > 0) {
    read_pause.succeeded(read.node);
  }
  read_over(read);
}

void request_scheduler_state::reads_failed(const scheduled_request& entry, const core::failed_reads& sides) {
  auto failed_at = [this](core::engine_id engine) {
    auto node = engines.at(engine).info.node;
    core::log_event(core::log_level::info, "reads_avoided",
                    {{"node", node}, {"for", core::format_duration(settings->store_retry_interval)}});
    read_pause.failed(node, settings->clock->now());
  };
  if (sides.prefill) failed_at(*entry.prefill);
  if (sides.decode) failed_at(*entry.decode);
}

void request_scheduler_state::hits_read(const proto::hits_read& event) {
  if (!ledger.is_current(event.request, event.epoch)) return;
  flights.acknowledge(event.request);
  auto& entry = requests.at(event.request);
  auto& request = entry.request;
  unpin(entry);
  reads_over(entry); // where the notice of a part was lost
  // Should the request be routed again, what it lost so far still counts.
  request.lost_blocks += request.hits.blocks() - event.good_blocks;
}

void request_scheduler_state::place_read(placed_read& read, core::node_id node, std::uint32_t blocks) {
  if (blocks > 0) read_pause.placed(node, settings->clock->now());
  read = {node, std::uint64_t{blocks} * settings->layout.block_tokens};
  nodes[node].read_outstanding_tokens += read.outstanding_tokens;
}

void request_scheduler_state::read_over(placed_read& read) {
  nodes[read.node].read_outstanding_tokens -= std::exchange(read.outstanding_tokens, 0);
}

void request_scheduler_state::reads_over(scheduled_request& entry) {
  read_over(entry.prefill_read);
  read_over(entry.decode_read);
}

void request_scheduler_state::handed_over(const proto::handed_over& event) {
  auto found = requests.find(event.request);
  if (found == requests.end() || !ledger.is_current(event.request, event.from_epoch)) return;
  flights.acknowledge(event.request);
  auto& entry = found->second;
  auto lease = ledger.hand_over(event.request, event.from_epoch, core::stage::decode, *entry.decode);
  entry.request.epoch = lease->epoch;
  entry.since_round = stock_round;
  charge(*entry.prefill, entry.request, -1);
  entry.prefill.reset();
  entry.kept.reset();
  // Where the notice of its hits was lost.
  unpin(entry);
  reads_over(entry);
}

void request_scheduler_state::finished(const proto::request_finished& event) {
  // The hand-over may still be on its way from the prefill engine.
  auto before = core::prefill_epoch(event.epoch);
  if (ledger.is_current(event.request, before)) handed_over({event.request, before});
  if (!ledger.is_current(event.request, event.epoch)) return;
  auto found = requests.find(event.request);
  if (!found->second.decode) return; // interrupted
  charge(*found->second.decode, found->second.request, -1);
  close(event.request, event.epoch);
}

void request_scheduler_state::unpin(scheduled_request& entry) {
  if (std::exchange(entry.pinned, false)) self->send(directory, proto::unpin_prefix{entry.request.id});
}

void request_scheduler_state::close(core::request_id id, core::epoch epoch) {
  (void)ledger.close(id, epoch);
  unpin(requests.at(id));
  flights.acknowledge(id);
  forget_kept(requests.at(id));
  requests.erase(id);
  leases_in_use.set(ledger.size());
}

std::uint64_t request_scheduler_state::padded_tokens(const proto::request& request) const {
  return settings->layout.blocks_for(request.total_tokens()) * settings->layout.block_tokens;
}

void request_scheduler_state::charge(core::engine_id id, const proto::request& request, int sign) {
  auto decode = engines.at(id).info.role == core::engine_role::decode;
  std::uint64_t tokens = decode ? padded_tokens(request) : request.context_tokens();
  sign > 0 ? loads.charge(id, tokens) : loads.release(id, tokens);
  auto& engine = engines.at(id);
  if (engine.draining && loads.requests_of(id) == 0) check_drained(engine.info.node);
}

} // namespace dualpath::actors

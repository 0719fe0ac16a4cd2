#include "actors/compute_nic.hpp"

#include "actors/device_bytes.hpp"
#include "actors/emulated_bandwidth.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::actors {

namespace {

using proto::outcome;

constexpr std::uint64_t inward_timer = 1, outward_timer = 2, overdue_timer = 3;

} // namespace

void compute_nic_state::enqueue(queued item) {
  if (auto* transfer = std::get_if<proto::kv_transfer>(&item.work)) {
    auto peer = peers.find(transfer->peer);
    if (peer != peers.end() && !links.contains(transfer->peer)) connect(peer->second);
    auto known = links.find(transfer->peer);
    if (known == links.end()) {
      item.answer.deliver(outcome::failure(core::errc::disconnected,
                                           "no link to engine " + std::to_string(transfer->peer.value)));
      return;
    }
    if (!known->second.ready) {
      known->second.waiting.push_back(std::move(item));
      return;
    }
    auto& way = transfer->put ? outward : inward;
    way.waiting.push_back(std::move(item));
    pump(way);
    return;
  }
  // A looped-back copy crosses the NIC both ways; it queues where it leaves.
  outward.waiting.push_back(std::move(item));
  pump(outward);
}

void compute_nic_state::pump(direction& way) {
  while (!way.waiting.empty()) {
    auto now = settings->clock->now();
    auto loopback = std::holds_alternative<proto::local_copy>(way.waiting.front().work);
    auto ready = way.bucket.ready_at(now);
    if (loopback) ready = std::max(ready, inward.bucket.ready_at(now));
    if (ready > now) {
      if (!way.timer_set) {
        way.timer_set = true;
        self->delayed_send(self, ready - now, proto::tick{&way == &inward ? inward_timer : outward_timer});
      }
      return;
    }
    auto item = std::move(way.waiting.front());
    way.waiting.pop_front();
    way.bucket.take(item.bytes, now);
    if (loopback) inward.bucket.take(item.bytes, now);
    issue(std::move(item));
  }
}

void compute_nic_state::issue(queued item) {
  auto operation = next_operation++;
  if (auto* copy = std::get_if<proto::local_copy>(&item.work)) {
    in_flight.emplace(operation,
                      compute_nic_state::operation{item.answer, settings->clock->now() + settings->deadline});
    watch();
    counters->copied_bytes += item.bytes;
    issue_copy(*copy, operation);
    return;
  }
  auto& transfer = std::get<proto::kv_transfer>(item.work);
  auto known = links.find(transfer.peer);
  if (known == links.end()) {
    item.answer.deliver(outcome::failure(core::errc::disconnected,
                                         "engine " + std::to_string(transfer.peer.value) + " is gone"));
    return;
  }
  in_flight.emplace(operation, compute_nic_state::operation{item.answer});
  (transfer.put ? counters->kv_put_bytes : counters->kv_get_bytes) += item.bytes;
  issue_transfer(transfer, known->second.to, operation);
}

void compute_nic_state::issue_transfer(const proto::kv_transfer& transfer, const fabric_link& to,
                                       std::uint64_t operation) {
  net::transfer t;
  t.peer = to.peer;
  t.lane = net::lane::kv;
  t.local = devices->staging.id;
  t.remote = to.pool;
  t.pieces = transfer.pieces;
  t.deadline = settings->clock->now() + settings->transfer_deadline;
  auto me = caf::actor_cast<proto::compute_nic_actor>(self);
  auto done = [me, operation](core::result<void> r) {
    caf::anon_send(me, proto::operation_done{operation, r});
  };
  if (transfer.put) {
    devices->fabric->put(std::move(t), done);
  } else {
    devices->fabric->get(std::move(t), done);
  }
}

void compute_nic_state::issue_copy(const proto::local_copy& copy, std::uint64_t operation) {
  std::vector<kernels::copy_op> ops;
  ops.reserve(copy.pieces.size());
  for (auto& piece : copy.pieces) ops.push_back({piece.target, piece.source, piece.bytes});
  auto me = caf::actor_cast<proto::compute_nic_actor>(self);
  devices->compute->copy(std::move(ops),
                         [me, operation, inside = devices->computing.enter()](core::result<void> r) {
                           caf::anon_send(me, proto::operation_done{operation, r});
                         });
}

void compute_nic_state::watch() {
  if (std::exchange(watching, true)) return;
  self->delayed_send(self, settings->deadline / 4, proto::tick{overdue_timer});
}

void compute_nic_state::find_overdue() {
  watching = false;
  auto now = settings->clock->now();
  auto copies = false;
  for (auto& [id, operation] : in_flight) {
    copies |= operation.deadline != core::instant::max();
    if (operation.deadline > now || !std::exchange(operation.suspect, true)) continue;
    self->quit(caf::make_error(caf::sec::runtime_error,
                               "a copy between host and device did not end within "
                                   + std::to_string(core::to_seconds(settings->deadline)) + " s"));
    return;
  }
  if (copies) watch();
}

void compute_nic_state::connect(const proto::engine_up& peer) {
  auto& link = links[peer.engine];
  auto old = devices->links.find(peer.engine);
  if (old != devices->links.end() && old->second.address == peer.fabric_address) {
    link.to = old->second;
    connected({peer.engine, peer.incarnation, link.to.peer.value, {}});
    return;
  }
  devices->links.erase(peer.engine);
  link.to.address = peer.fabric_address;
  auto me = caf::actor_cast<proto::compute_nic_actor>(self);
  auto pool = to_bytes(peer.pool_export);
  auto fabric = devices->fabric;
  // Making endpoints on all lanes takes longer than any transfer over them.
  constexpr core::duration least_time = std::chrono::seconds{30};
  auto deadline = settings->clock->now() + std::max(settings->transfer_deadline, least_time);
  fabric->connect(to_bytes(peer.fabric_address), deadline,
                  [=, id = peer.engine, inc = peer.incarnation](auto to) {
                    proto::link_ready ready{id, inc, 0, {}};
                    if (to) {
                      ready.fabric_peer = to->value;
                    } else {
                      ready.status = core::result<void>{to.error()};
                    }
                    caf::anon_send(me, ready);
                  });
  pool_exports[peer.engine] = std::move(pool);
}

void compute_nic_state::connected(const proto::link_ready& ready) {
  auto known = links.find(ready.peer);
  if (known == links.end()) return;
  auto& link = known->second;
  auto status = ready.status;
  if (status.ok && !devices->links.contains(ready.peer)) {
    link.to.peer = net::peer_id{ready.fabric_peer};
    auto pool = devices->fabric->import_region(link.to.peer, pool_exports[ready.peer]);
    if (pool) {
      link.to.pool = *pool;
      devices->links[ready.peer] = link.to;
    } else {
      status = core::result<void>{pool.error()};
    }
  }
  auto waiting = std::move(link.waiting);
  if (!status.ok) {
    for (auto& item : waiting) item.answer.deliver(status);
    links.erase(known);
    return;
  }
  link.ready = true;
  for (auto& item : waiting) enqueue(std::move(item));
}

void compute_nic_state::forget(core::engine_id peer) {
  peers.erase(peer);
  auto known = links.find(peer);
  if (known == links.end()) return;
  for (auto& item : known->second.waiting)
    item.answer.deliver(
        outcome::failure(core::errc::disconnected, "engine " + std::to_string(peer.value) + " is gone"));
  links.erase(known);
}

void compute_nic_state::cut(core::engine_id peer, caf::typed_response_promise<proto::devices_idle> answer) {
  forget(peer);
  devices->links.erase(peer);
  auto operation = next_operation++;
  cuts.emplace(operation, std::move(answer));
  auto me = caf::actor_cast<proto::compute_nic_actor>(self);
  devices->fabric->cut(peer, [me, operation] { caf::anon_send(me, proto::operation_done{operation, {}}); });
}

proto::compute_nic_actor::behavior_type compute_nic(compute_nic_state::self_pointer self,
                                                    settings_ptr settings, devices_ptr devices,
                                                    std::shared_ptr<core::node_counters> counters) {
  auto& state = self->state;
  state.self = self;
  state.settings = std::move(settings);
  state.devices = std::move(devices);
  state.counters = std::move(counters);
  state.inward.bucket = emulate_bandwidth(state.settings->cnic_bytes_per_s);
  state.outward.bucket = emulate_bandwidth(state.settings->cnic_bytes_per_s);
  return {
      [self](proto::kv_transfer& transfer) -> caf::result<outcome> {
        auto answer = self->make_response_promise<outcome>();
        auto bytes = core::total_bytes(transfer.pieces);
        self->state.enqueue({std::move(transfer), bytes, answer});
        return answer;
      },
      [self](proto::local_copy& copy) -> caf::result<outcome> {
        auto answer = self->make_response_promise<outcome>();
        std::uint64_t bytes = 0;
        for (auto& piece : copy.pieces) bytes += piece.bytes;
        self->state.enqueue({std::move(copy), bytes, answer});
        return answer;
      },
      [self](const proto::cut_engine& order) -> caf::result<proto::devices_idle> {
        auto answer = self->make_response_promise<proto::devices_idle>();
        self->state.cut(order.engine, answer);
        return answer;
      },
      [self](const proto::engine_up& peer) {
        if (peer.role != core::engine_role::decode) return;
        self->state.peers.insert_or_assign(peer.engine, peer);
        self->state.connect(peer);
      },
      [self](const proto::engine_down& peer) { self->state.forget(peer.engine); },
      [self](const proto::operation_done& done) {
        auto node = self->state.in_flight.extract(done.operation);
        if (!node.empty()) node.mapped().answer.deliver(done.status);
        auto cut = self->state.cuts.extract(done.operation);
        if (!cut.empty()) cut.mapped().deliver(proto::devices_idle{});
      },
      [self](const proto::link_ready& ready) { self->state.connected(ready); },
      [self](const proto::tick& timer) {
        if (timer.id == overdue_timer) {
          self->state.find_overdue();
          return;
        }
        auto& way = timer.id == inward_timer ? self->state.inward : self->state.outward;
        way.timer_set = false;
        self->state.pump(way);
      },
  };
}

} // namespace dualpath::actors

#include "net/sim_core.hpp"

#include "net/handshake.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace dualpath::net {
namespace {

std::string name(const identity& who) { return "engine " + std::to_string(who.engine.value); }

const char* verb(sim_operation::kind what) {
  switch (what) {
  case sim_operation::kind::put:
    return "put";
  case sim_operation::kind::get:
    return "get";
  case sim_operation::kind::send:
    return "message";
  case sim_operation::kind::connect:
    return "connect";
  }
  return "operation";
}

core::error late(const sim_operation& operation) {
  return {core::errc::timed_out, std::string{verb(operation.what)} + " of " + std::to_string(operation.bytes)
                                     + " bytes on lane " + to_string(operation.lane)
                                     + " passed its deadline"};
}

bool moves_memory(const sim_operation& operation) {
  return operation.what == sim_operation::kind::put || operation.what == sim_operation::kind::get;
}

core::error cut_off(const identity& by) {
  return {core::errc::refused, name(by) + " has cut this process off: it was taken for dead"};
}

} // namespace

std::shared_ptr<sim_node> sim_core::open(identity self) {
  std::lock_guard lock{mutex};
  while (self.instance == 0 || nodes.contains(self.instance)) self.instance = next_instance_++;
  auto node = std::make_shared<sim_node>();
  node->self = self;
  node->bytes_per_second = options.bytes_per_second;
  nodes.emplace(self.instance, node);
  return node;
}

std::shared_ptr<sim_node> sim_core::find(std::uint64_t instance) const {
  auto found = nodes.find(instance);
  return found == nodes.end() ? nullptr : found->second;
}

peer_id sim_core::remember(sim_node& node, const identity& who) {
  peer_id fresh{static_cast<std::uint32_t>(node.peers.size())};
  auto [found, added] = node.peer_of.emplace(who.instance, fresh);
  if (added) node.peers.push_back({who, false});
  return found->second;
}

/// Runs `step` under the lock at `when`, then what it collected, outside it; nothing if the fabric is gone by
/// then.
void sim_core::at(core::instant when, const std::shared_ptr<sim_node>& node,
                  std::function<void(callbacks&)> step) {
  options.clock->call_at(when, [self = shared_from_this(), node, step = std::move(step)] {
    callbacks after;
    {
      std::lock_guard lock{self->mutex};
      if (self->find(node->self.instance) != node) return;
      step(after);
      ++node->running;
    }
    for (auto& call : after) call();
    std::lock_guard lock{self->mutex};
    if (--node->running == 0) node->idle.notify_all();
  });
}

/// When the operation is over, and the time it takes from both sides' networks.
core::instant sim_core::model(sim_node& from, const sim_operation& operation) {
  auto now = options.clock->now();
  auto peer = find(operation.peer);
  auto trip =
      operation.what == sim_operation::kind::get || operation.what == sim_operation::kind::connect ? 2 : 1;
  auto arrival = now + trip * options.latency;
  if (peer) {
    auto get = operation.what == sim_operation::kind::get;
    auto& sending = get ? peer->sending_free : from.sending_free;
    auto& receiving = get ? from.receiving_free : peer->receiving_free;
    auto speed = std::min(from.bytes_per_second, peer->bytes_per_second);
    auto done = std::max({now, sending, receiving})
                + core::from_seconds(static_cast<double>(operation.bytes) / speed);
    sending = receiving = done;
    arrival = done + trip * options.latency;
  }
  std::uniform_real_distribution<double> share{0, 1};
  if (options.faults.delay > 0 && share(random) < options.faults.delay) {
    arrival += core::from_seconds(share(random) * core::to_seconds(options.faults.max_delay));
  }
  return arrival;
}

void sim_core::begin(const std::shared_ptr<sim_node>& node, sim_operation operation,
                     std::optional<core::error> refusal) {
  std::lock_guard lock{mutex};
  auto id = next_operation_++;
  auto now = options.clock->now();
  if (!refusal && !node->alive)
    refusal = core::error{core::errc::disconnected, "this engine's process is dead"};
  if (!refusal && node->quiescing && moves_memory(operation)) {
    refusal = core::error{core::errc::closed, "the fabric is quiescing: no new transfers until it has"};
  }
  if (!refusal && operation.what != sim_operation::kind::connect) {
    auto known = node->peer_of.find(operation.peer);
    if (known == node->peer_of.end() || !node->peers[known->second.value].up) {
      refusal = core::error{core::errc::disconnected, "the peer is not connected: connect to it again"};
    }
  }
  auto deadline = operation.deadline;
  bool drop = false, fail = false;
  auto arrival = now;
  if (refusal) {
    node->refused.insert(id);
  } else {
    std::uniform_real_distribution<double> share{0, 1};
    drop = options.faults.drop > 0 && share(random) < options.faults.drop;
    fail = options.faults.fail > 0 && share(random) < options.faults.fail;
    arrival = model(*node, operation);
  }
  node->in_flight.emplace(id, std::move(operation));
  if (refusal) {
    at(now, node, [=, this, why = *refusal](callbacks& after) { end(node, id, why, after); });
  } else if (drop || arrival > deadline) {
    at(deadline, node, [=, this](callbacks& after) {
      auto found = node->in_flight.find(id);
      if (found != node->in_flight.end()) end(node, id, late(found->second), after);
    });
  } else if (fail) {
    at(arrival, node, [=, this](callbacks& after) {
      end(node, id, core::error{core::errc::disconnected, "the connection broke (injected)"}, after);
    });
  } else {
    at(arrival, node, [=, this](callbacks& after) { arrive(node, id, after); });
  }
}

void sim_core::arrive(const std::shared_ptr<sim_node>& node, std::uint64_t id, callbacks& after) {
  auto found = node->in_flight.find(id);
  if (found == node->in_flight.end()) return;
  auto& operation = found->second;
  auto peer = find(operation.peer);
  bool connecting = operation.what == sim_operation::kind::connect;
  if (node->paused || (peer && (peer->paused || (!peer->alive && !connecting)))) {
    at(operation.deadline, node, [=, this](callbacks& then) {
      auto still = node->in_flight.find(id);
      if (still != node->in_flight.end()) end(node, id, late(still->second), then);
    });
    return;
  }
  end(node, id, take_effect(*node, operation, after), after);
}

core::result<void> sim_core::take_effect(sim_node& node, sim_operation& operation, callbacks& after) {
  if (operation.what == sim_operation::kind::connect) return shake_hands(node, operation);
  auto peer = find(operation.peer);
  if (!peer) return core::error{core::errc::disconnected, "the peer is gone"};
  if (operation.what == sim_operation::kind::send) {
    auto known = peer->peer_of.find(node.self.instance);
    if (known == peer->peer_of.end() || !peer->peers[known->second.value].up || !peer->on_message) return {};
    after.push_back(
        [handler = peer->on_message, from = known->second, on = operation.lane,
         letter = std::move(operation.message)]() mutable { (*handler)(from, on, std::move(letter)); });
    return {};
  }
  if (peer->cut.contains(node.self.instance)) return cut_off(peer->self);
  auto base = reinterpret_cast<std::byte*>(operation.remote.base);
  bool exists = std::any_of(peer->regions.begin(), peer->regions.end(), [&](auto& region) {
    return region.second.bytes.data() == base && region.second.bytes.size() == operation.remote.size;
  });
  if (!exists) return core::error{core::errc::disconnected, name(peer->self) + " has released the memory"};
  for (auto& piece : operation.pieces) {
    for (std::uint64_t row = 0; row < piece.count && piece.bytes != 0; ++row) {
      auto here = operation.local.data() + piece.local_offset + row * piece.local_stride;
      auto there = base + piece.remote_offset + row * piece.remote_stride;
      if (operation.what == sim_operation::kind::put) {
        std::memcpy(there, here, piece.bytes);
      } else {
        std::memcpy(here, there, piece.bytes);
      }
    }
  }
  return {};
}

core::result<void> sim_core::shake_hands(sim_node& node, const sim_operation& operation) {
  auto peer = find(operation.peer);
  if (!peer || !peer->alive) {
    for (auto& [instance, other] : nodes) {
      if (other->self.engine == operation.expected.who.engine && other->alive) {
        return check_target(other->self, operation.peer);
      }
    }
    return core::error{core::errc::disconnected, "nobody answers for " + name(operation.expected.who)};
  }
  if (auto fits = check_peer(node.self, {wire::protocol_version, peer->self}); !fits) return fits;
  if (auto fits = check_peer(peer->self, {wire::protocol_version, node.self}); !fits) return fits;
  if (peer->cut.contains(node.self.instance)) return cut_off(peer->self);
  if (node.cut.contains(peer->self.instance)) return cut_off(node.self);
  node.peers[remember(node, peer->self).value].up = true;
  peer->peers[remember(*peer, node.self).value].up = true;
  return {};
}

void sim_core::end(const std::shared_ptr<sim_node>& node, std::uint64_t id, core::result<void> how,
                   callbacks& after) {
  auto found = node->in_flight.find(id);
  if (found == node->in_flight.end()) return;
  auto operation = std::move(found->second);
  node->in_flight.erase(found);
  node->refused.erase(id);
  auto& count = node->counters[static_cast<std::size_t>(operation.lane)];
  if (!how) {
    ++(how.error().code == core::errc::timed_out ? count.timed_out : count.failed);
  } else if (operation.what == sim_operation::kind::put) {
    count.put_bytes += operation.bytes;
  } else if (operation.what == sim_operation::kind::get) {
    count.get_bytes += operation.bytes;
  } else if (operation.what == sim_operation::kind::send) {
    ++count.messages;
  }
  after.push_back([on_done = std::move(operation.on_done), how = std::move(how)] {
    if (on_done) on_done(how);
  });
  check_quiet(*node, after);
}

void sim_core::check_quiet(sim_node& node, callbacks& after) {
  if (!node.quiescing) return;
  for (auto& [id, operation] : node.in_flight) {
    if (moves_memory(operation) && !node.refused.contains(id)) return;
  }
  node.quiescing = false;
  for (auto& call : std::exchange(node.on_quiet, {})) after.push_back(std::move(call));
}

void sim_core::quiesce(const std::shared_ptr<sim_node>& node, std::function<void()> on_quiet) {
  std::lock_guard lock{mutex};
  node->quiescing = true;
  node->on_quiet.push_back(std::move(on_quiet));
  at(options.clock->now(), node, [this, node](callbacks& after) { check_quiet(*node, after); });
}

/// `node` learns that the process `gone` is no longer there for it.
void sim_core::lose(const std::shared_ptr<sim_node>& node, std::uint64_t gone, const std::string& why,
                    callbacks& after) {
  auto known = node->peer_of.find(gone);
  if (known == node->peer_of.end()) return;
  auto& peer = node->peers[known->second.value];
  std::vector<std::uint64_t> lost;
  for (auto& [id, operation] : node->in_flight) {
    if (operation.peer == gone) lost.push_back(id);
  }
  for (auto id : lost) end(node, id, core::error{core::errc::disconnected, why}, after);
  if (!std::exchange(peer.up, false) || !node->on_down) return;
  after.push_back([handler = node->on_down, id = known->second, why] { (*handler)(id, why); });
}

void sim_core::tell_peers(const identity& gone, const std::string& why) {
  auto when = options.clock->now() + options.detection;
  for (auto& [instance, node] : nodes) {
    if (instance == gone.instance || !node->peer_of.contains(gone.instance)) continue;
    at(when, node,
       [this, node, dead = gone.instance, why](callbacks& after) { lose(node, dead, why, after); });
  }
}

void sim_core::part(const std::shared_ptr<sim_node>& node, peer_id id) {
  std::lock_guard lock{mutex};
  if (id.value >= node->peers.size()) return;
  auto& peer = node->peers[id.value];
  peer.up = false;
  auto why = "the connection to " + name(peer.who) + " was closed";
  at(options.clock->now(), node,
     [this, node, gone = peer.who.instance, why](callbacks& after) { lose(node, gone, why, after); });
  if (auto other = find(peer.who.instance)) {
    at(options.clock->now() + options.latency, other,
       [this, other, gone = node->self.instance, why = name(node->self) + " closed the connection"](
           callbacks& after) { lose(other, gone, why, after); });
  }
}

void sim_core::cut(const std::shared_ptr<sim_node>& node, core::engine_id engine,
                   std::function<void()> on_done) {
  std::lock_guard lock{mutex};
  at(options.clock->now(), node, [this, node, engine, on_done = std::move(on_done)](callbacks& after) {
    for (std::size_t i = 0; i < node->peers.size(); ++i) {
      auto who = node->peers[i].who;
      if (who.engine != engine || !node->cut.insert(who.instance).second) continue;
      lose(node, who.instance, "the connection to " + name(who) + " was cut", after);
      if (auto other = find(who.instance))
        lose(other, node->self.instance, name(node->self) + " cut the connection", after);
    }
    after.push_back(on_done);
  });
}

void sim_core::kill(std::uint64_t instance) {
  std::lock_guard lock{mutex};
  auto node = find(instance);
  if (!node || !std::exchange(node->alive, false)) return;
  tell_peers(node->self, name(node->self) + " died");
  at(options.clock->now(), node, [this, node](callbacks& after) {
    std::vector<std::uint64_t> all;
    for (auto& [id, operation] : node->in_flight) all.push_back(id);
    for (auto id : all)
      end(node, id, core::error{core::errc::disconnected, "this engine's process is dead"}, after);
  });
}

void sim_core::pause(std::uint64_t instance, bool paused) {
  std::lock_guard lock{mutex};
  if (auto node = find(instance)) node->paused = paused;
}

void sim_core::close(const std::shared_ptr<sim_node>& node) {
  callbacks after;
  std::unique_lock lock{mutex};
  nodes.erase(node->self.instance);
  if (node->alive) tell_peers(node->self, name(node->self) + " closed the connection: closed");
  std::vector<std::uint64_t> all;
  for (auto& [id, operation] : node->in_flight) all.push_back(id);
  for (auto id : all) end(node, id, core::error{core::errc::closed, "the fabric is closing"}, after);
  node->idle.wait(lock, [&] { return node->running == 0; });
  lock.unlock();
  for (auto& call : after) call();
}

} // namespace dualpath::net

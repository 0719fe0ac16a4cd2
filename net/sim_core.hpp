// The shared state of a simulated network: its fabrics, what is in flight, and the time model. One lock;
// callbacks are collected while it is held and run after it.
#pragma once

#include "net/sim_fabric.hpp"
#include "net/wire.hpp"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

namespace dualpath::net {

struct sim_remote_region {
  std::uint64_t instance = 0, base = 0, size = 0;
};

struct sim_operation {
  enum class kind : std::uint8_t { put, get, send, connect };

  kind what = kind::put;
  std::uint64_t peer = 0; ///< instance
  net::lane lane = net::lane::kv;
  core::instant deadline{};
  std::uint64_t bytes = 0;
  std::span<std::byte> local;
  sim_remote_region remote;
  std::vector<strided_piece> pieces;
  net::message message;
  wire::peer_identity expected; ///< connect: what the address says
  fabric::done on_done;
};

/// One fabric's side of the network.
struct sim_node {
  struct peer_state {
    identity who;
    bool up = false;
  };
  struct region {
    std::span<std::byte> bytes;
    std::shared_ptr<std::byte> owner; ///< null: attached
  };

  identity self;
  bool alive = true, paused = false, quiescing = false;
  double bytes_per_second = 0;
  core::instant sending_free{}, receiving_free{};
  std::vector<peer_state> peers; ///< by peer id
  std::unordered_map<std::uint64_t, peer_id> peer_of;
  std::unordered_map<core::region_id, region> regions;
  std::uint32_t next_region = 0;
  std::vector<sim_remote_region> remotes; ///< by remote region id
  std::map<std::uint64_t, sim_operation> in_flight;
  std::set<std::uint64_t> refused; ///< operations that were never admitted
  std::set<std::uint64_t> cut;     ///< instances whose transfers must not touch our memory any more
  std::vector<std::function<void()>> on_quiet;
  std::array<lane_counters, lane_count> counters{};
  std::shared_ptr<std::function<void(peer_id, lane, message)>> on_message;
  std::shared_ptr<std::function<void(peer_id, std::string)>> on_down;
  unsigned running = 0; ///< callbacks of this fabric at work
  std::condition_variable idle;
};

class sim_core : public std::enable_shared_from_this<sim_core> {
public:
  using callbacks = std::vector<std::function<void()>>;

  explicit sim_core(const sim_network_options& options) : options{options}, random{options.seed} {}

  std::shared_ptr<sim_node> open(identity self);
  void close(const std::shared_ptr<sim_node>& node);
  /// Begins an operation; `refusal` set: it ends with that, soon.
  void begin(const std::shared_ptr<sim_node>& node, sim_operation operation,
             std::optional<core::error> refusal);
  void kill(std::uint64_t instance);
  void pause(std::uint64_t instance, bool paused);
  void part(const std::shared_ptr<sim_node>& node, peer_id peer);
  void cut(const std::shared_ptr<sim_node>& node, core::engine_id engine, std::function<void()> on_done);
  /// Calls back, on the clock's thread, once nothing is in flight.
  void quiesce(const std::shared_ptr<sim_node>& node, std::function<void()> on_quiet);
  std::shared_ptr<sim_node> find(std::uint64_t instance) const; ///< under the lock
  peer_id remember(sim_node& node, const identity& who);        ///< under the lock

  mutable std::mutex mutex;
  sim_network_options options;
  std::map<std::uint64_t, std::shared_ptr<sim_node>> nodes; ///< by instance

private:
  void at(core::instant when, const std::shared_ptr<sim_node>& node, std::function<void(callbacks&)> step);
  core::instant model(sim_node& from, const sim_operation& operation);
  void arrive(const std::shared_ptr<sim_node>& node, std::uint64_t id, callbacks& after);
  core::result<void> take_effect(sim_node& node, sim_operation& operation, callbacks& after);
  core::result<void> shake_hands(sim_node& node, const sim_operation& operation);
  void end(const std::shared_ptr<sim_node>& node, std::uint64_t id, core::result<void> how, callbacks& after);
  void lose(const std::shared_ptr<sim_node>& node, std::uint64_t gone, const std::string& why,
            callbacks& after);
  void tell_peers(const identity& gone, const std::string& why);
  void check_quiet(sim_node& node, callbacks& after);

  std::mt19937_64 random;
  std::uint64_t next_operation_ = 0, next_instance_ = 1;
};

} // namespace dualpath::net

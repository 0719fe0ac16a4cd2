// The request scheduler: picks a prefill engine, a decode engine and a read path for every request (spec §7),
// keeps the ledger of who owns what, and routes again what a failed engine leaves behind. All choices are
// pure functions of core/policy; this actor keeps their inputs.
//
// Loads are counted by the ledger itself rather than reported: every request starts and ends here, so the
// count includes what is still on its way to an engine. Leaders report what only they know: how far, and how
// fast, their storage NIC has read.
#pragma once

#include "actors/settings.hpp"
#include "core/engine_table.hpp"
#include "core/flight_budget.hpp"
#include "core/lease.hpp"
#include "core/policy/adoption.hpp"
#include "core/policy/path_choice.hpp"
#include "core/policy/read_balance.hpp"
#include "core/policy/read_pause.hpp"
#include "core/policy/role_watch.hpp"
#include "proto/interfaces.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dualpath::actors {

/// Hits of a request that the storage NIC of a node is to read: counted in its read queue until they are
/// known to be read.
struct placed_read {
  core::node_id node;
  std::uint64_t outstanding_tokens = 0;
};

/// Hit blocks that an engine keeps of an attempt for the next one, which is routed to it again.
struct kept_at_engine {
  core::engine_id engine;
  core::epoch epoch; ///< under which it keeps them, until the next attempt takes them over
  core::kept_hits hits;
};

struct scheduled_request {
  proto::request request;
  std::optional<core::engine_id> prefill, decode; ///< chosen so far
  core::node_id decode_group;
  std::uint64_t arrival = 0; ///< its place in the queue for a prefill engine
  bool dispatched = false;
  placed_read prefill_read, decode_read;
  std::optional<kept_at_engine> kept;
  bool awaiting_client = false;  ///< interrupted: the client submits it again
  bool pinned = false;           ///< its prefix, in the directory
  std::uint64_t since_round = 0; ///< of stocktaking: what was asked later knows of its present epoch
};

using held_request = std::pair<core::request_id, core::epoch>;

struct engine_entry {
  proto::engine_up info;
  bool alive = false;
  bool draining = false; ///< gets no new work
  bool lost = false;     ///< never to return
  /// Requests that the other side must let go of before this engine may come back (decode), or be routed
  /// again.
  std::map<core::request_id, core::epoch> fences;
  std::optional<proto::engine_up> returning;
  std::set<held_request> held; ///< as of its last stocktaking
  std::set<held_request> kept; ///< of these: hits of an attempt that it has ended
};

/// An order to abandon a request that has not been answered.
struct abandon_order {
  proto::abandon order;
  std::uint64_t since_round = 0;
};

struct role_entry {
  core::role_watch watch;
  std::vector<std::string> lost_nodes; ///< that had it, and how they were lost
};

struct node_entry {
  std::deque<core::request_id> waiting; ///< decode groups: their private queue
  std::uint64_t read_outstanding_tokens =
      0; ///< hits of requests whose read is placed here and not known to be over
  std::uint64_t partly_read_tokens = 0; ///< of these, as last reported
  double read_tokens_per_s = 0;         ///< as last reported

  core::read_queue read_queue() const {
    return {read_outstanding_tokens - std::min(read_outstanding_tokens, partly_read_tokens),
            read_tokens_per_s};
  }
};

struct request_scheduler_state {
  using self_pointer = proto::scheduler_actor::stateful_pointer<request_scheduler_state>;
  struct waiter {
    std::uint32_t count = 0;
    caf::typed_response_promise<std::uint32_t> answer;
  };

  static inline const char* name = "scheduler";
  static constexpr std::uint64_t roles_tick = 1;
  self_pointer self = nullptr;
  settings_ptr settings;
  proto::directory_actor directory;

  std::map<core::request_id, scheduled_request> requests;
  core::lease_ledger ledger;
  std::deque<core::request_id> waiting; ///< for a prefill engine, first come first served
  std::uint64_t arrivals = 0;
  std::map<core::engine_id, engine_entry> engines;
  core::engine_table loads; ///< of them, by group
  std::map<core::node_id, node_entry> nodes;
  std::deque<core::request_id> without_group;              ///< there is no decode group to wait in
  std::map<core::node_id, caf::strong_actor_ptr> draining; ///< and who asked for it
  std::vector<waiter> waiters;
  std::array<role_entry, 2> roles; ///< prefill, decode
  std::string told_missing;        ///< the roles that were last said to be missing
  bool looks_for_nodes = false;    ///< a timer runs that watches them
  core::flight_budget flights;     ///< requests given to the nodes of prefill engines
  std::uint64_t turn = 0;
  core::read_balance balance;
  core::read_pause read_pause; ///< of storage NICs whose reads fail
  std::uint64_t stock_round = 0;
  std::map<std::pair<core::request_id, core::engine_id>, abandon_order> orders;
  std::map<caf::actor_addr, bool> clients; ///< alive?
  core::usage_gauge::share leases_in_use;

  // Arrival.
  void submit(proto::request request);
  void enqueue(core::request_id id);
  void join_decode_group(core::request_id id);

  // Choice.
  void fetch(const proto::fetch_work& report);
  void choose_prefill_for(core::node_id node);
  void choose_decode_for(core::node_id node);
  /// What can be handed out at best: the rest of the queue does not change the choice.
  std::vector<core::waiting_request> fitting_prefix(const std::deque<core::request_id>& queue,
                                                    const std::vector<core::engine_load>& group) const;
  void dispatch_if_ready(core::request_id id);
  void wait_for_prefill_again(core::request_id id);
  void dispatch(core::request_id id, std::uint32_t found_blocks);

  // Progress.
  void part_read(const proto::part_read& event);
  void hits_read(const proto::hits_read& event);
  void handed_over(const proto::handed_over& event);
  void finished(const proto::request_finished& event);
  void failed(const proto::request_failed& event);

  // Failure.
  void engine_down(const proto::engine_down& event);
  void leave_dead_group(core::node_id node);
  void leave_decode_group(const scheduled_request& entry);
  void engine_fenced(const proto::engine_fenced& event);
  void release_orphans(core::engine_id engine);
  void engine_up(const proto::engine_up& event);
  void admit_engine(const proto::engine_up& event);
  void abandoned(const proto::abandoned& event);
  void reads_failed(const scheduled_request& entry, const core::failed_reads& sides);
  void place_read(placed_read& read, core::node_id node, std::uint32_t blocks);
  void read_over(placed_read& read);
  void reads_over(scheduled_request& entry);
  void route_again(core::request_id id, std::optional<kept_at_engine> kept = std::nullopt);
  bool can_keep(core::engine_id engine) const;
  void forget_kept(scheduled_request& entry);
  void leave_sides(scheduled_request& entry);
  void take_back(core::request_id id);
  void reject(core::request_id id, const std::string& why);
  void interrupt(core::request_id id);
  void send_abandon(core::engine_id engine, const proto::request& request, bool keep_hits);
  void give_order(core::engine_id engine, const proto::abandon& order);

  // Nodes that come and go.
  void node_lost(const proto::node_lost& event);
  void drain_node(core::node_id node, caf::strong_actor_ptr asked_by);
  void check_drained(core::node_id node);
  void rebalance();

  // Roles that no node has.
  bool role_is_served(core::engine_role role) const;
  bool role_is_live(core::engine_role role) const;
  bool ready_for(const waiter& w) const;
  void answer_waiters();
  std::uint64_t requests_waiting() const;
  std::string missing_roles() const;
  void say_what_is_missing();
  std::string lost_nodes() const;
  void watch_roles();
  void give_up_for_want_of(core::engine_role role);
  void tell_clients(const proto::nodes_awaited& news);
  role_entry& entry_of(core::engine_role role) { return roles[static_cast<std::size_t>(role)]; }
  const role_entry& entry_of(core::engine_role role) const { return roles[static_cast<std::size_t>(role)]; }

  template <class News>
  void tell(const proto::engine_up& listener, const News& news) {
    if (listener.role == core::engine_role::prefill) {
      self->send(caf::actor_cast<proto::prefill_actor>(listener.actor), news);
    } else {
      self->send(caf::actor_cast<proto::decode_actor>(listener.actor), news);
    }
  }

  // Stocktaking: what lost messages left behind.
  void take_stock();
  void compare_stock(const proto::stock& event);
  void repeat_orders(core::engine_id engine, std::uint64_t round);
  void find_missing(core::engine_id engine, std::uint64_t round);
  void missing_in_prefill(core::request_id id, std::uint64_t round);
  void drop_strays(core::engine_id engine);
  void withdrawn(core::request_id id);
  void client_down(const caf::actor_addr& client);

  void unpin(scheduled_request& entry);
  void close(core::request_id id, core::epoch epoch);
  std::uint64_t padded_tokens(const proto::request& request) const;
  void charge(core::engine_id engine, const proto::request& request, int sign);
};

proto::scheduler_actor::behavior_type request_scheduler(request_scheduler_state::self_pointer self,
                                                        settings_ptr settings,
                                                        proto::directory_actor directory);

} // namespace dualpath::actors

// Who belongs to the cluster: admits nodes, orders devices of them for each run, tells the scheduler when one
// is lost or leaves, and collects what they counted. Lives as long as the head's command, over all its runs.
#pragma once

#include "core/ids.hpp"
#include "proto/interfaces.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dualpath::actors {

/// The nodes that the head waits for. Node 0 is the head itself, the first of prefill, or without engines.
/// More may join later.
struct membership_plan {
  std::uint32_t prefill_nodes = 1, decode_nodes = 1;
  bool head_serves = true;                          ///< as one of prefill_nodes
  std::string machine;                              ///< of the head
  std::map<std::string, core::engine_role> roles{}; ///< of nodes that do not name one, by machine
  core::duration report_deadline = std::chrono::seconds{20};
};

struct member {
  enum class phase : std::uint8_t { idle, preparing, serving, draining, leaving };

  core::node_id node;
  core::engine_role role = core::engine_role::prefill;
  std::string machine;
  proto::agent_address address;
  caf::actor agent;
  phase now = phase::idle;
  bool expected = false; ///< one of the plan: the run does not start without it
};

struct membership_state {
  using self_pointer = proto::membership_actor::stateful_pointer<membership_state>;
  struct waiter {
    std::uint32_t nodes = 0;
    caf::typed_response_promise<std::uint32_t> answer;
  };
  struct active_run {
    proto::begin_run wanted;
    caf::typed_response_promise<proto::outcome> started;
    bool all_started = false, ending = false;
    std::set<core::node_id> unreported; ///< nodes that serve, or did, and have not reported
    proto::node_reports reports;
    std::optional<caf::typed_response_promise<proto::node_reports>> ended;
  };

  static inline const char* name = "membership";
  self_pointer self = nullptr;
  membership_plan plan;
  std::map<core::node_id, member> members;
  std::map<caf::actor_addr, core::node_id> by_agent;
  std::uint32_t next_extra = 0; ///< node ids are never used twice
  std::vector<bool> taken;      ///< places of the plan, the first being the head's
  std::vector<waiter> waiters;
  std::optional<active_run> run;
  std::optional<caf::typed_response_promise<proto::outcome>> all_gone; ///< to be answered

  // Admission.
  proto::joined join(proto::join_cluster ask);
  std::uint32_t first_decode_place() const { return plan.prefill_nodes + (plan.head_serves ? 0 : 1); }
  std::optional<core::engine_role> lacking_role() const;
  bool serves(core::engine_role role, core::node_id without) const;
  proto::absent_nodes absent() const;
  std::optional<core::node_id> place_for(const proto::join_cluster& ask) const;
  core::engine_role role_of(core::node_id place, const proto::join_cluster& ask) const;
  void introduce(const member& newcomer);
  void agent_down(const caf::down_msg& down);

  // Runs.
  void begin(proto::begin_run wanted, caf::typed_response_promise<proto::outcome> started);
  void order(member& m);
  void free_places();
  void ready(const proto::node_ready& facts);
  void serve(member& m);
  void report(const proto::node_report& counted);
  void end(const proto::end_run& order, caf::typed_response_promise<proto::node_reports> ended);
  void end_if_all_reported();
  void fail_start(const std::string& why);
  void started_if_all_serve();

  // Leaving.
  proto::outcome drain(core::node_id node);
  void drained(core::node_id node);
  void dismiss(member& m, const std::string& why);
  void dismiss_all(const std::string& why);
  void answer_if_all_gone();
};

proto::membership_actor::behavior_type membership(membership_state::self_pointer self, membership_plan plan);

/// Why a node with these facts may not serve beside the head; "": it may.
std::string mismatch(const proto::node_ready& own, const proto::node_ready& theirs);

} // namespace dualpath::actors

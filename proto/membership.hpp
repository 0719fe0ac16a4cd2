// What the processes of a cluster tell each other before and around the work: who joins, which run to serve,
// who leaves. The head process hosts scheduler, directory and front end; every other process is one node, and
// its agent talks to the head's membership actor. Connections are authenticated before any of this is read
// (actors/control_plane.hpp); here a peer says what it is, and is refused in a sentence where it does not
// fit.
//
// Life of a node: join_cluster → joined | refused → (for each run) run_order → node_ready → serve_run →
// run_over → node_report … → leave_cluster.
#pragma once

#include "proto/inspect_messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::proto {

/// Raised with every change of a message that an older process would misread.
inline constexpr std::uint32_t control_protocol_version = 4;

enum class wanted_role : std::uint8_t { any, prefill, decode };

/// Where to reach the agent of a node; port 0: nowhere.
struct agent_address {
  std::string host;
  std::uint16_t port = 0;
};

struct join_cluster {
  std::uint32_t version = control_protocol_version;
  std::string program;    ///< its version, for people
  std::string host;       ///< name of the machine: what it shares memory with
  std::uint32_t rank = 0; ///< under a launcher: the node it is to be; 0: whichever is free
  wanted_role role = wanted_role::any;
  agent_address address;
  caf::strong_actor_ptr agent;
};
struct joined {
  core::node_id node;
  std::string why_refused; ///< "": welcome
};

/// An option of the head's command line or configuration file, by its long name.
struct run_setting {
  std::string name;
  std::vector<std::string> values;
};

/// Make the devices for a run.
struct run_order {
  std::uint64_t run = 0;
  core::node_id node;
  core::engine_role role = core::engine_role::prefill;
  core::engine_id first_engine; ///< the node's engines are numbered from here
  std::vector<run_setting> settings;
  std::string store;                ///< as in --store; "": nothing is stored outside processes
  std::uint64_t longest_tokens = 0; ///< of a request with what it generates
  std::uint64_t sessions = 0;       ///< at a time
  std::uint32_t prefill_engines_here = 0, decode_engines_here = 0; ///< that share this machine's memory
};
/// What a node has made; compared with the head's own before it may serve.
struct node_ready {
  std::uint64_t run = 0;
  core::node_id node;
  std::string model;
  core::block_key fingerprint; ///< of model, KV dtype and layout
  std::uint32_t layers = 0, block_tokens = 0, token_bytes = 0;
  proto::outcome status;
};
struct serve_run {
  std::uint64_t run = 0;
  caf::strong_actor_ptr scheduler, directory;
  double prefill_base_s = 0, prefill_token_s = 0, prefill_pair_s = 0; ///< see core::attention_cost_model
};
struct run_over {
  std::uint64_t run = 0;
  std::uint64_t settle_ms = 0; ///< first wait for so long at most that nothing is held for requests any more
};
/// The counters of a node at the end of a run.
struct node_report {
  std::uint64_t run = 0;
  core::node_id node;
  core::engine_role role = core::engine_role::prefill;
  std::uint64_t storage_read_bytes = 0, storage_written_bytes = 0;
  std::uint64_t kv_put_bytes = 0, kv_get_bytes = 0, copied_bytes = 0;
  std::uint64_t blocks_written = 0, blocks_missing = 0, blocks_corrupt = 0;
  std::uint64_t blocks_unreadable = 0, blocks_unwritten = 0, read_errors = 0, storage_overdue = 0;
  std::uint64_t faults_happened = 0;                       ///< injected there
  std::vector<std::string> faults_planned, faults_pending; ///< for there, as core::fault_plan describes them
  std::uint64_t adopted_tokens = 0;
  std::uint32_t engine_restarts = 0;
  std::uint64_t pauses = 0, paused_ns = 0; ///< of the node's process, in the run
  bool store_full = false;
  std::vector<std::uint64_t> held; ///< by core::resource, after it was waited for; empty: nobody waited
};
/// Connect to that node directly, so that messages need not pass through the head.
struct meet_node {
  core::node_id node;
  agent_address address;
};
/// To the scheduler as well: finish what is in decode, hand back what waits, then leave. Sent by an
/// administrator or by the node itself.
struct drain_node {
  core::node_id node;
};
struct leave_cluster {
  std::string why;
  bool refused = false; ///< the node does not fit: its process fails
};

/// To the scheduler: the node's process is lost with everything in it.
struct node_lost {
  core::node_id node;
  std::string why;
};
/// From the scheduler: nothing of a draining node is under way any more.
struct node_drained {
  core::node_id node;
};

// ---- local to the head

/// The membership actor gathers nodes until `nodes` of them, the head's own included, are there.
struct await_nodes {
  std::uint32_t nodes = 0;
};
/// Which nodes of the plan are not there? Answered by absent_nodes.
struct name_absent {};
struct absent_nodes {
  std::vector<core::node_id> nodes;
  std::vector<core::engine_role> roles; ///< one for each of nodes
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, agent_address& x) {
  return f(caf::meta::type_name("agent_address"), x.host, x.port);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, join_cluster& x) {
  return f(caf::meta::type_name("join_cluster"), x.version, x.program, x.host, x.rank, x.role, x.address,
           x.agent);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, joined& x) {
  return f(caf::meta::type_name("joined"), x.node, x.why_refused);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_setting& x) {
  return f(caf::meta::type_name("run_setting"), x.name, x.values);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_order& x) {
  return f(caf::meta::type_name("run_order"), x.run, x.node, x.role, x.first_engine, x.settings, x.store,
           x.longest_tokens, x.sessions, x.prefill_engines_here, x.decode_engines_here);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, node_ready& x) {
  return f(caf::meta::type_name("node_ready"), x.run, x.node, x.model, x.fingerprint, x.layers,
           x.block_tokens, x.token_bytes, x.status);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, serve_run& x) {
  return f(caf::meta::type_name("serve_run"), x.run, x.scheduler, x.directory, x.prefill_base_s,
           x.prefill_token_s, x.prefill_pair_s);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_over& x) {
  return f(caf::meta::type_name("run_over"), x.run, x.settle_ms);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, node_report& x) {
  return f(caf::meta::type_name("node_report"), x.run, x.node, x.role, x.storage_read_bytes,
           x.storage_written_bytes, x.kv_put_bytes, x.kv_get_bytes, x.copied_bytes, x.blocks_written,
           x.blocks_missing, x.blocks_corrupt, x.blocks_unreadable, x.blocks_unwritten, x.read_errors,
           x.storage_overdue, x.faults_happened, x.faults_planned, x.faults_pending, x.adopted_tokens,
           x.engine_restarts, x.pauses, x.paused_ns, x.store_full, x.held);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, meet_node& x) {
  return f(caf::meta::type_name("meet_node"), x.node, x.address);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, drain_node& x) {
  return f(caf::meta::type_name("drain_node"), x.node);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, leave_cluster& x) {
  return f(caf::meta::type_name("leave_cluster"), x.why, x.refused);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, node_lost& x) {
  return f(caf::meta::type_name("node_lost"), x.node, x.why);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, node_drained& x) {
  return f(caf::meta::type_name("node_drained"), x.node);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, await_nodes& x) {
  return f(caf::meta::type_name("await_nodes"), x.nodes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, name_absent&) {
  return f(caf::meta::type_name("name_absent"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, absent_nodes& x) {
  return f(caf::meta::type_name("absent_nodes"), x.nodes, x.roles);
}

/// What the head wants of every node in a run. `order` and `serve` are filled in for each node; a node whose
/// facts differ from `own` is refused.
struct begin_run {
  run_order order;
  serve_run serve;
  node_ready own;
  std::uint32_t gpus_per_node = 1;
};
/// Answered once every node has reported or is lost.
struct end_run {
  std::uint64_t run = 0;
  std::uint64_t settle_ms = 0; ///< as in run_over
};
struct node_reports {
  std::vector<node_report> reports;
  std::vector<core::node_id> silent; ///< served, and did not report
  std::vector<std::string> warnings;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, begin_run& x) {
  return f(caf::meta::type_name("begin_run"), x.order, x.serve, x.own, x.gpus_per_node);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, end_run& x) {
  return f(caf::meta::type_name("end_run"), x.run, x.settle_ms);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, node_reports& x) {
  return f(caf::meta::type_name("node_reports"), x.reports, x.silent, x.warnings);
}

} // namespace dualpath::proto

CAF_BEGIN_TYPE_ID_BLOCK(dualpath_membership, first_custom_type_id + 1000)
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::agent_address))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::join_cluster))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::joined))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::run_setting))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::run_order))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::node_ready))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::serve_run))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::run_over))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::node_report))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::meet_node))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::drain_node))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::leave_cluster))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::node_lost))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::node_drained))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::await_nodes))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::begin_run))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::end_run))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::node_reports))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::name_absent))
CAF_ADD_TYPE_ID(dualpath_membership, (dualpath::proto::absent_nodes))
CAF_END_TYPE_ID_BLOCK(dualpath_membership)

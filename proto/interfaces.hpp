// The typed interface of every actor. Handles of peers travel as strong_actor_ptr inside `engine_up`, so that
// these types need not know each other.
#pragma once

#include "proto/inspect_messages.hpp"
#include "proto/membership.hpp"

namespace dualpath::proto {

template <class... Ts>
using on = caf::reacts_to<Ts...>;

/// Whoever submits rounds and receives their tokens.
using client_actor = caf::typed_actor<on<accepted>, on<tokens>, on<round_done>, on<interrupted>,
                                      on<nodes_awaited>, on<rejected>, on<drain>, on<tick>>;

using scheduler_actor =
    caf::typed_actor<on<submit>, on<fetch_work>, on<part_read>, on<hits_read>, on<handed_over>,
                     on<request_finished>, on<request_failed>, on<abandoned>, on<engine_up>, on<engine_down>,
                     on<engine_fenced>, on<stock>, on<withdrawn>, on<tick>,
                     caf::replies_to<await_engines>::with<std::uint32_t>, on<node_lost>, on<drain_node>>;

using directory_actor = caf::typed_actor<caf::replies_to<find_prefix>::with<prefix_found>, on<unpin_prefix>,
                                         on<block_stored>, on<block_lost>>;

using prefill_actor = caf::typed_actor<on<prefill_work>, on<landing>, on<hits_loaded>, on<abandon>,
                                       on<engine_up>, on<engine_down>, on<layer_computed>, on<batch_sampled>,
                                       on<read_overdue>, on<take_stock>, on<tick>>;

using decode_actor = caf::typed_actor<on<open_landing>, on<close_landing>, on<decode_work>, on<abandon>,
                                      on<engine_up>, on<engine_down>, on<layer_computed>, on<batch_sampled>,
                                      on<read_overdue>, on<take_stock>, on<tick>>;

using buffer_pool_actor =
    caf::typed_actor<caf::replies_to<grant_slots>::with<granted_slots>, on<release_slots>>;

using storage_nic_actor = caf::typed_actor<
    caf::replies_to<read_blocks>::with<blocks_read>, caf::replies_to<write_block>::with<outcome>,
    caf::replies_to<drain_engine>::with<devices_idle>, on<operation_done>, on<slots_overdue>, on<tick>>;

using compute_nic_actor =
    caf::typed_actor<caf::replies_to<kv_transfer>::with<outcome>, caf::replies_to<local_copy>::with<outcome>,
                     caf::replies_to<cut_engine>::with<devices_idle>, on<engine_up>, on<engine_down>,
                     on<operation_done>, on<link_ready>, on<tick>>;

using leader_actor = caf::typed_actor<on<read_progress>, on<tick>>;

using engine_supervisor_actor = caf::typed_actor<on<devices_idle>>;

/// The head's: who belongs to the cluster.
using membership_actor =
    caf::typed_actor<caf::replies_to<join_cluster>::with<joined>, on<node_ready>, on<node_report>,
                     caf::replies_to<drain_node>::with<outcome>, on<node_drained>,
                     caf::replies_to<await_nodes>::with<std::uint32_t>,
                     caf::replies_to<name_absent>::with<absent_nodes>,
                     caf::replies_to<begin_run>::with<outcome>, caf::replies_to<end_run>::with<node_reports>,
                     caf::replies_to<leave_cluster>::with<outcome>, on<tick>>;

/// Supervisors above the engines only start, watch and stop.
using node_supervisor_actor = caf::typed_actor<on<tick>>;
using cluster_supervisor_actor = caf::typed_actor<on<tick>>;

} // namespace dualpath::proto

// How CAF serialises the messages, and their registration with an actor system.
#pragma once

#include "proto/messages.hpp"

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dualpath::proto::local_copy)

namespace dualpath::proto {

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, outcome& x) {
  return f(caf::meta::type_name("outcome"), x.ok, x.code, x.text);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, request& x) {
  return f(caf::meta::type_name("request"), x.id, x.epoch, x.session, x.round, x.context, x.tokens_before,
           x.delivered_tokens, x.generate_tokens, x.temperature, x.sampling_seed, x.keys, x.keys_before,
           x.client, x.attempt, x.hits, x.prefill, x.decode, x.failed_reads, x.lost_blocks);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, submit& x) {
  return f(caf::meta::type_name("submit"), x.request);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, accepted& x) {
  return f(caf::meta::type_name("accepted"), x.request);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, tokens& x) {
  return f(caf::meta::type_name("tokens"), x.request, x.first_index, x.ids);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, round_done& x) {
  return f(caf::meta::type_name("round_done"), x.request, x.hits, x.lost_blocks, x.attempts);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, interrupted& x) {
  return f(caf::meta::type_name("interrupted"), x.request);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, withdrawn& x) {
  return f(caf::meta::type_name("withdrawn"), x.request);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, drain&) {
  return f(caf::meta::type_name("drain"));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, nodes_awaited& x) {
  return f(caf::meta::type_name("nodes_awaited"), x.why, x.given_up);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, rejected& x) {
  return f(caf::meta::type_name("rejected"), x.request, x.why);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, fetch_work& x) {
  return f(caf::meta::type_name("fetch_work"), x.node, x.partly_read_tokens, x.read_tokens_per_s);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, prefill_work& x) {
  return f(caf::meta::type_name("prefill_work"), x.request);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, part_read& x) {
  return f(caf::meta::type_name("part_read"), x.request, x.epoch, x.side, x.good_blocks, x.unreadable);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, hits_read& x) {
  return f(caf::meta::type_name("hits_read"), x.request, x.epoch, x.good_blocks);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, handed_over& x) {
  return f(caf::meta::type_name("handed_over"), x.request, x.from_epoch);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, request_finished& x) {
  return f(caf::meta::type_name("request_finished"), x.request, x.epoch);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, request_failed& x) {
  return f(caf::meta::type_name("request_failed"), x.request, x.epoch, x.why, x.failed_reads, x.kept,
           x.landing_kept);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, abandon& x) {
  return f(caf::meta::type_name("abandon"), x.request, x.epoch, x.keep_hits);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, abandoned& x) {
  return f(caf::meta::type_name("abandoned"), x.request, x.epoch, x.engine, x.kept);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, engine_up& x) {
  return f(caf::meta::type_name("engine_up"), x.engine, x.node, x.role, x.incarnation, x.actor,
           x.fabric_address, x.pool_export, x.hbm_tokens);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, engine_down& x) {
  return f(caf::meta::type_name("engine_down"), x.engine, x.incarnation, x.why, x.lost);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, engine_fenced& x) {
  return f(caf::meta::type_name("engine_fenced"), x.engine, x.incarnation);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, take_stock& x) {
  return f(caf::meta::type_name("take_stock"), x.round, x.oldest);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stock& x) {
  return f(caf::meta::type_name("stock"), x.engine, x.incarnation, x.round, x.requests, x.epochs, x.kept);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, await_engines& x) {
  return f(caf::meta::type_name("await_engines"), x.count);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, open_landing& x) {
  return f(caf::meta::type_name("open_landing"), x.request, x.epoch, x.context_tokens, x.hits);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, landing& x) {
  return f(caf::meta::type_name("landing"), x.request, x.epoch, x.slots, x.status);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, hits_loaded& x) {
  return f(caf::meta::type_name("hits_loaded"), x.request, x.epoch, x.good_blocks, x.unreadable);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, decode_work& x) {
  return f(caf::meta::type_name("decode_work"), x.request, x.first_token);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, close_landing& x) {
  return f(caf::meta::type_name("close_landing"), x.request, x.epoch);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, grant_slots& x) {
  return f(caf::meta::type_name("grant_slots"), x.request, x.count);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, granted_slots& x) {
  return f(caf::meta::type_name("granted_slots"), x.slots, x.status);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, release_slots& x) {
  return f(caf::meta::type_name("release_slots"), x.slots);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, read_blocks& x) {
  return f(caf::meta::type_name("read_blocks"), x.request, x.epoch, x.engine, x.keys, x.slots);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, read_overdue& x) {
  return f(caf::meta::type_name("read_overdue"), x.request, x.epoch);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, blocks_read& x) {
  return f(caf::meta::type_name("blocks_read"), x.good_blocks, x.unreadable);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, write_block& x) {
  return f(caf::meta::type_name("write_block"), x.engine, x.slot, x.key, x.parent, x.depth);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, read_progress& x) {
  return f(caf::meta::type_name("read_progress"), x.partly_read_tokens, x.read_tokens_per_s);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, kv_transfer& x) {
  return f(caf::meta::type_name("kv_transfer"), x.request, x.epoch, x.put, x.peer, x.pieces);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, cut_engine& x) {
  return f(caf::meta::type_name("cut_engine"), x.engine);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, find_prefix& x) {
  return f(caf::meta::type_name("find_prefix"), x.request, x.keys);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, prefix_found& x) {
  return f(caf::meta::type_name("prefix_found"), x.request, x.blocks);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, unpin_prefix& x) {
  return f(caf::meta::type_name("unpin_prefix"), x.request);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, block_stored& x) {
  return f(caf::meta::type_name("block_stored"), x.key, x.parent, x.depth);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, block_lost& x) {
  return f(caf::meta::type_name("block_lost"), x.key);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, layer_computed& x) {
  return f(caf::meta::type_name("layer_computed"), x.batch, x.layer, x.status);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, batch_sampled& x) {
  return f(caf::meta::type_name("batch_sampled"), x.batch, x.ids, x.status);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, operation_done& x) {
  return f(caf::meta::type_name("operation_done"), x.operation, x.status);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, link_ready& x) {
  return f(caf::meta::type_name("link_ready"), x.peer, x.incarnation, x.fabric_peer, x.status);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, tick& x) {
  return f(caf::meta::type_name("tick"), x.id);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, drain_engine& x) {
  return f(caf::meta::type_name("drain_engine"), x.engine);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, slots_overdue& x) {
  return f(caf::meta::type_name("slots_overdue"), x.engine);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, devices_idle&) {
  return f(caf::meta::type_name("devices_idle"));
}

} // namespace dualpath::proto

CAF_BEGIN_TYPE_ID_BLOCK(dualpath, first_custom_type_id)
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::outcome))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::request))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::submit))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::tokens))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::round_done))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::interrupted))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::drain))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::nodes_awaited))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::rejected))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::fetch_work))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::prefill_work))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::part_read))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::hits_read))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::handed_over))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::request_finished))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::request_failed))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::abandon))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::abandoned))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::engine_up))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::engine_down))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::await_engines))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::open_landing))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::landing))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::hits_loaded))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::decode_work))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::close_landing))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::grant_slots))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::granted_slots))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::release_slots))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::read_blocks))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::blocks_read))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::write_block))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::read_progress))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::kv_transfer))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::cut_engine))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::find_prefix))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::prefix_found))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::unpin_prefix))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::block_stored))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::block_lost))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::layer_computed))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::batch_sampled))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::operation_done))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::link_ready))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::tick))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::drain_engine))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::devices_idle))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::withdrawn))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::engine_fenced))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::take_stock))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::stock))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::read_overdue))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::accepted))
CAF_ADD_TYPE_ID(dualpath, (dualpath::proto::slots_overdue))
CAF_END_TYPE_ID_BLOCK(dualpath)

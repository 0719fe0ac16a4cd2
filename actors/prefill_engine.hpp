// A prefill engine: owns requests from their assignment to the hand-over to a decode engine, and computes
// them in forward batches, layer by layer, while the KV-cache of neighbouring layers travels (spec §4).
//
// A request first gets its landing (slots in the decode engine's pool), then slots in our own pool for the
// hit blocks that our side reads; always in that order, so that pools cannot deadlock. The decode side reads
// the first hit blocks into the landing meanwhile. With both parts there, either of which may be all or
// nothing, it waits, first come first served, for the forward batches that compute its missing tokens.
//
// Hit blocks outlive their attempt where the scheduler says so (the decode engine died) or may hope so (the
// storage of the decode side fails or does not answer): they are kept for the next attempt, which comes to
// this engine again. Kept blocks are a cache: they go as soon as somebody waits for slots, so that nobody
// ever waits for them.
//
// A part that the storage of one side fails to read fails the attempt, so that the next one reads it through
// the other side. Where a read of the request has failed before, the hit ends with what was read.
//
// Deadlines: what the decode engine does not tell in time is asked for again, since the connection may have
// lost question or answer. A part that the store of either side does not answer fails the request, and a
// computation that does not end fails the engine.
#pragma once

#include "actors/devices.hpp"
#include "actors/prefill_batch.hpp"
#include "actors/settings.hpp"
#include "core/epoch_door.hpp"
#include "core/layout/layer_pieces.hpp"
#include "core/lease.hpp"
#include "proto/interfaces.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>

namespace dualpath::actors {

struct prefill_engine_state {
  using self_pointer = proto::prefill_actor::stateful_pointer<prefill_engine_state>;

  static inline const char* name = "prefill";
  self_pointer self = nullptr;
  settings_ptr settings;
  devices_ptr devices;
  proto::scheduler_actor scheduler;
  proto::storage_nic_actor storage_nic;
  proto::compute_nic_actor compute_nic;
  proto::buffer_pool_actor pool;
  core::incarnation incarnation;
  std::shared_ptr<core::node_counters> counters;

  std::map<core::engine_id, proto::decode_actor> decode_engines;
  core::epoch_door door; ///< of requests: work that comes late is for an attempt that is over
  std::map<core::request_id, prefill_job> jobs;
  std::deque<core::request_id> ready; ///< hits are in the buffers; waiting for a batch
  std::optional<prefill_batch> batch; ///< the one on the device
  std::uint64_t next_batch = 1;
  std::map<core::request_id, proto::request> next_attempts; ///< wait for an earlier one to leave
  std::map<core::request_id, kept_attempt> kept;            ///< hits that wait for the next attempt
  std::uint64_t claimed_slots = 0; ///< of our pool: granted, or asked for; more than it has: somebody waits
  core::instant slots_flowed{0};   ///< the last time that nobody waited, or somebody got slots

  // From assignment to ready.
  void accept(proto::request request);
  void begin(proto::request request);
  void landed(const proto::landing& landing);
  void ask_for_landing(prefill_job& job);
  prefill_job* find_job(core::request_id request, core::epoch epoch);
  void hits_loaded(const proto::hits_loaded& hits);
  void part_read(prefill_job& job, core::engine_role side, std::uint32_t good_blocks, bool unreadable);
  void become_ready_if_read(prefill_job& job);

  // Parts that cannot be read.
  bool other_side_may_read(const prefill_job& job, core::engine_role side) const;
  void read_failed(prefill_job& job, core::engine_role side, std::uint32_t good_blocks);
  void read_overdue(const proto::read_overdue& notice);
  void count_unreadable(const prefill_job& job, const core::read_split& good);

  // Hit blocks in our buffer.
  void read_hits_here(prefill_job& job);
  void read_into(prefill_job& job, const std::vector<core::block_range>& ranges,
                 const std::vector<std::uint32_t>& slots);
  void part_loaded(core::request_id request, core::epoch read_as, std::uint32_t first,
                   std::vector<std::uint32_t> slots, const proto::blocks_read& result);
  void hits_here_if_read(prefill_job& job);
  void adopt_kept(prefill_job& job);
  core::block_range keep_hits(prefill_job& job);
  core::block_range still_kept(const proto::abandon& order);
  void drop_kept(core::request_id request);
  void give_back_kept();
  void give_back(buffered_parts& parts);
  void give_back(std::vector<std::uint32_t> slots);
  std::uint64_t pool_slots() const;

  // Forward batches.
  void start_batch();
  bool add_to_batch(prefill_batch& next, prefill_job& job, std::uint64_t token_count);
  void perform(std::vector<core::layer_pipeline::action> actions);
  bool load(std::uint32_t layer);  ///< whether anything is on its way
  bool store(std::uint32_t layer); ///< likewise
  void compute(std::uint32_t layer);
  void sample();
  void transfer(std::uint32_t layer, core::request_id request, bool put,
                std::vector<core::strided_piece> pieces);
  void copy_hits(std::uint32_t layer, const prefill_job& job, std::uint64_t staging_offset);
  void moved(std::uint64_t batch_id, std::uint32_t layer, core::request_id request, bool load,
             const proto::outcome& status);
  void layer_computed(const proto::layer_computed& event);
  void sampled(const proto::batch_sampled& event);
  void finish_batch_if_over();
  void fail_batch(const std::string& why);
  void finish_part(const batch_part& part, std::optional<core::token_id> token);
  std::uint64_t staging_slot_blocks() const;
  std::uint64_t staging_offset(std::uint32_t layer, const batch_part& part) const;

  // Endings.
  void hand_over(prefill_job& job, core::token_id first_token);
  void fail(prefill_job& job, const proto::outcome& why, core::failed_reads failed_reads = {},
            std::uint32_t landed_blocks = 0);
  void abandon(const proto::abandon& order);
  void forget(core::request_id request);

  // Deadlines.
  void started_computing();
  void watch();
  void answer_stock(const proto::take_stock& ask);
};

proto::prefill_actor::behavior_type
prefill_engine(prefill_engine_state::self_pointer self, settings_ptr settings, devices_ptr devices,
               proto::scheduler_actor scheduler, proto::storage_nic_actor storage_nic,
               proto::compute_nic_actor compute_nic, proto::buffer_pool_actor pool,
               core::incarnation incarnation, std::shared_ptr<core::node_counters> counters);

} // namespace dualpath::actors

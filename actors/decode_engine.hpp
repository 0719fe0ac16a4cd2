// A decode engine: lands the prompt KV of requests in its DRAM pool while they are in prefill elsewhere,
// reads hit blocks there as far as its side is to read them, then owns them: copies their KV to HBM, decodes
// all of them in one batch, one token a step, and writes every block to the store as soon as it is full.
#pragma once

#include "actors/devices.hpp"
#include "actors/settings.hpp"
#include "core/epoch_door.hpp"
#include "core/lease.hpp"
#include "core/slot_allocator.hpp"
#include "proto/interfaces.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace dualpath::actors {

/// Slots of our pool into which a prefill engine writes, and the first of which take the hit blocks that our
/// side reads. Those outlive an attempt whose prefill engine died, or of which a read failed: the landing is
/// kept for the next, with nothing of the old engine on its way to it any more.
struct landing_area {
  std::vector<std::uint32_t> slots;
  core::shared_keys hits;           ///< to be had in the first slots
  std::uint32_t loaded_blocks = 0;  ///< of these, read and verified
  std::uint32_t adopted_blocks = 0; ///< of these, read for an earlier attempt
  std::uint32_t reading_until = 0;  ///< the end of the read under way, in blocks
  core::epoch read_as;              ///< of the attempt for which it was asked
  bool granted = false;
  bool busy = false;    ///< our storage NIC writes into the slots, or they are being copied to HBM
  bool closed = false;  ///< given up; the slots go back once they are not busy
  bool kept = false;    ///< of an attempt that is over, for the next one
  bool overdue = false; ///< the store does not answer
  proto::prefill_actor opener;
  std::optional<std::uint32_t> good_blocks; ///< once all hits have been read: of these verified
  bool unreadable = false;                  ///< the block after them, with an I/O error
};

/// A request that is routed again may land a second time before its first landing is fenced.
using landing_key = std::pair<core::request_id, core::epoch>;

/// A request in decode.
struct decode_job {
  proto::request request;
  std::shared_ptr<kernels::sequence> sequence; ///< all tokens so far; the last one has no KV row yet
  std::vector<std::uint32_t> hbm_blocks;
  std::vector<core::block_key> keys; ///< of the blocks that are full, from request.keys_before on
  std::uint32_t generated = 0;       ///< tokens of the round, delivered earlier or now
  std::uint32_t pins = 0;            ///< steps and copies that touch its HBM
  bool first_step = true;
  bool finished = false;
};

struct decode_batch {
  std::uint64_t id = 0;
  std::vector<core::request_id> requests;
};

struct decode_engine_state {
  using self_pointer = proto::decode_actor::stateful_pointer<decode_engine_state>;

  static inline const char* name = "decode";
  self_pointer self = nullptr;
  settings_ptr settings;
  devices_ptr devices;
  proto::scheduler_actor scheduler;
  proto::storage_nic_actor storage_nic;
  proto::compute_nic_actor compute_nic;
  proto::buffer_pool_actor pool;
  core::incarnation incarnation;
  std::shared_ptr<core::node_counters> counters;

  core::epoch_door door; ///< what passes late would never be closed
  std::map<landing_key, landing_area> landings;
  std::map<core::engine_id, caf::actor_addr> prefill_engines;
  std::set<caf::actor_addr> lost_engines; ///< what they sent may still arrive
  std::uint32_t cuts_open = 0;            ///< lost engines that may still write into our pool
  std::deque<proto::abandon> abandons_waiting;
  std::uint64_t claimed_slots = 0; ///< of our pool: granted, or asked for; more than it has: somebody waits
  core::instant slots_flowed{0};   ///< the last time that nobody waited, or somebody got slots
  core::slot_allocator hbm;
  core::usage_gauge::share hbm_in_use, slots_in_use; ///< the latter: of write_slots
  core::slot_allocator write_slots;                  ///< numbered from write_slots_begin
  std::uint32_t write_slots_begin = 0;
  std::deque<std::pair<core::request_id, std::uint32_t>>
      write_outs;                        ///< blocks in HBM waiting for a write slot
  std::uint32_t slots_being_written = 0; ///< landing slots kept until their block is stored
  std::deque<proto::decode_work> waiting_for_hbm;
  std::map<core::request_id, decode_job> jobs;
  std::set<core::request_id> active; ///< jobs whose KV is in HBM
  decode_batch batch;                ///< the step on the device
  bool stepping = false;
  core::instant stepping_since{0};
  proto::outcome step_error; ///< of the layers of the step
  std::uint64_t next_batch = 1;

  // Landing.
  void open_landing(const proto::open_landing& ask, const caf::strong_actor_ptr& from);
  void landing_granted(const proto::open_landing& ask, proto::prefill_actor prefill,
                       proto::granted_slots& granted);
  void load_hits(const landing_key& key);
  void hits_read(core::request_id request, core::epoch read_as, const proto::blocks_read& read);
  std::optional<landing_key> reader(core::request_id request, core::epoch read_as) const;
  void tell_landing(const landing_key& key, const proto::prefill_actor& prefill);
  void drop_old(core::request_id request, core::epoch of);
  void close_landing(const landing_key& key);
  void release_landing(const landing_key& key);
  void give_back(std::vector<std::uint32_t> slots);
  void read_overdue(const proto::read_overdue& notice);
  void abandon_when_cut(const proto::abandon& order);
  void abandon(const proto::abandon& order);

  // Landings that outlive their attempt.
  std::uint32_t keep_landing(const landing_key& key);
  bool adopt_landing(const proto::open_landing& ask, const proto::prefill_actor& prefill);
  landing_area& move_landing(const landing_key& from, const landing_key& to);
  std::optional<landing_key> kept_landing(core::request_id request) const;
  void close_kept();

  // Prefill engines of other processes.
  void prefill_engine_down(const proto::engine_down& event);

  // From landing to HBM.
  void accept(proto::decode_work work);
  void admit_waiting();
  void admit(proto::decode_work work, std::vector<std::uint32_t> blocks);
  void copied_in(const landing_key& key, const proto::outcome& status);
  void persist_prompt(decode_job& job, landing_area& area);

  // Decode steps.
  void step();
  void stepped(const proto::batch_sampled& event);
  void append(decode_job& job, core::token_id token);
  void persist_last_block(decode_job& job);
  void start_write_outs();
  void drop_write_outs_of_finished();
  void write_out(core::request_id request, std::uint32_t block, std::uint32_t slot);
  void release_write_slot(std::uint32_t slot);
  core::block_key key_of(const decode_job& job, std::uint32_t block) const;
  core::block_key parent_key(const decode_job& job, std::uint32_t block) const;
  void finish(decode_job& job);
  void free_if_over(core::request_id request);

  void watch();
  void answer_stock(const proto::take_stock& ask);
  void count_use();

  std::byte* hbm_block(std::uint32_t index) const;
  std::byte* pool_slot(std::uint32_t index) const;
};

proto::decode_actor::behavior_type
decode_engine(decode_engine_state::self_pointer self, settings_ptr settings, devices_ptr devices,
              proto::scheduler_actor scheduler, proto::storage_nic_actor storage_nic,
              proto::compute_nic_actor compute_nic, proto::buffer_pool_actor pool,
              core::incarnation incarnation, std::shared_ptr<core::node_counters> counters);

} // namespace dualpath::actors

// The storage NIC of a node: read and write queues in front of the block store, paced where a bandwidth is
// emulated. Writes go first in first out, reads in the order of core/policy/read_order. Reads tell how many
// leading blocks verified; whatever was bad or missing is reported to the block directory and counted, as is
// what the store gives up to stay within its capacity. An I/O error is told to the engine only: the other
// side may read the block. A store that is full or failing stops writes for a while, never reads, and is
// tried again.
//
// An operation that is not answered by its deadline no longer counts against the depth of the queue, and the
// engine that waits for a read is told not to. The memory stays in use until the store really answers,
// however late: only then is the read answered too. Where requests miss that memory for long, or an
// engine that is to be restarted over it, the store is taken for broken: nothing can take the memory back
// from an operation under way but the end of its process.
#pragma once

#include "actors/devices.hpp"
#include "actors/settings.hpp"
#include "core/policy/busy_rate.hpp"
#include "core/policy/token_bucket.hpp"
#include "proto/interfaces.hpp"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace dualpath::actors {

struct storage_nic_state {
  using self_pointer = proto::storage_nic_actor::stateful_pointer<storage_nic_state>;

  /// A request's hit blocks on their way from the store to a pool.
  struct read_job {
    proto::read_blocks ask;
    caf::typed_response_promise<proto::blocks_read> answer;
    std::uint64_t due = 0;
    std::uint32_t issued = 0, completed = 0;
    std::uint32_t good = 0;  ///< blocks before the first failure; all while none failed
    bool unreadable = false; ///< the first failure is an I/O error
    bool dropped = false;    ///< its engine died: nobody waits for the answer
    bool overdue = false;    ///< a block of it is: its engine waits for nothing but its slots
    caf::strong_actor_ptr reader;
  };
  struct write_job {
    proto::write_block ask;
    caf::typed_response_promise<proto::outcome> answer;
  };
  struct operation {
    bool is_read = false;
    std::uint64_t job = 0;
    std::uint32_t block = 0;
    core::engine_id engine;
    write_job write;
    core::instant deadline{0};
    bool overdue = false;
  };
  struct drain {
    core::engine_id engine;
    caf::typed_response_promise<proto::devices_idle> answer;
    core::instant since{0};
  };

  static inline const char* name = "storage_nic";
  self_pointer self = nullptr;
  settings_ptr settings;
  std::shared_ptr<storage::block_store> store;
  core::engine_role role = core::engine_role::prefill; ///< of the node's engines
  std::map<core::engine_id, std::span<std::byte>> pools;
  std::shared_ptr<core::node_counters> counters;
  proto::directory_actor directory;
  proto::leader_actor leader;

  core::token_bucket read_bucket{0, 0}, write_bucket{0, 0};
  core::busy_rate read_rate{std::chrono::seconds{2}}; ///< in tokens
  std::map<std::uint64_t, read_job> reads;
  std::set<std::pair<std::uint64_t, std::uint64_t>>
      read_queue;                      ///< due time and id of jobs with blocks to issue
  std::uint64_t read_begun_tokens = 0; ///< the clock of due times
  std::deque<write_job> write_queue;
  std::set<core::block_key> writing; ///< queued or in flight
  std::map<std::uint64_t, operation> in_flight;
  std::vector<drain> drains;
  std::uint64_t next_id = 1;
  std::uint32_t reads_in_flight = 0, writes_in_flight = 0;
  bool read_timer_set = false, write_timer_set = false, watching = false;
  core::instant writes_resume{0};  ///< after a full store, or one that failed
  std::optional<core::errc> pause; ///< why; none once a write has succeeded again

  void enqueue_read(read_job job);
  void start_reads();
  void start_writes();
  void enqueue_write(write_job job);
  void issue_read(std::uint64_t job_id, read_job& job);
  void issue_write(write_job job);
  void completed(const proto::operation_done& done);
  void read_completed(const operation& op, const proto::outcome& status);
  void read_failed(read_job& job, std::uint32_t block, const proto::outcome& status);
  void write_completed(operation& op, const proto::outcome& status);
  void pause_writes(const proto::outcome& status);
  void watch_evictions();
  void finish_read(std::uint64_t job_id);
  void watch();
  void find_overdue();
  void give_up_read(std::uint64_t job_id);
  void end_reading_if_idle();
  void give_up_if_draining_hangs();
  void give_up_store(core::engine_id engine);
  void report_progress();
  void drop_engine(core::engine_id engine);
  void answer_drains();
  std::span<std::byte> slot(core::engine_id engine, std::uint32_t index) const;
};

proto::storage_nic_actor::behavior_type storage_nic(storage_nic_state::self_pointer self,
                                                    settings_ptr settings,
                                                    std::shared_ptr<const node_devices> node,
                                                    proto::directory_actor directory,
                                                    proto::leader_actor leader);

} // namespace dualpath::actors

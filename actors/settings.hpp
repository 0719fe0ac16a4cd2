// What every actor of a cluster is told at start: policy, limits and the injected sources of time and faults.
// Immutable and shared.
#pragma once

#include "core/clock.hpp"
#include "core/fault_plan.hpp"
#include "core/flight_peaks.hpp"
#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/policy/compute_quota.hpp"
#include "core/policy/cost_model.hpp"
#include "core/policy/prefill_choice.hpp"
#include "core/policy/read_balance.hpp"
#include "core/read_path.hpp"
#include "core/usage_gauge.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace dualpath::actors {

struct cluster_settings {
  /// Of all that is waited for: in a program, one that stands still while the process does. Outlives the
  /// cluster.
  core::clock* clock = nullptr;
  core::clock* wall = nullptr;        ///< of the times that are reported; none: the other. Likewise
  core::fault_plan* faults = nullptr; ///< none: no faults
  core::usage_gauge* usage = nullptr; ///< none: nobody counts what is held
  /// Bytes of requests that a node, or the scheduler, may have been given without having answered yet; 0: no
  /// bound (core/flight_budget.hpp).
  std::uint64_t control_in_flight_bytes = 64 << 20;
  core::flight_peaks* flights = nullptr; ///< of nodes; none: nobody asks
  core::policy policy = core::policy::dualpath;
  core::block_layout layout;
  core::model_fingerprint fingerprint; ///< of model, KV dtype and layout: the root of all block keys
  std::uint64_t slot_bytes = 0;        ///< of a Full Block in a pool; a multiple of the store's alignment
  core::prefill_thresholds thresholds;
  core::attention_cost_model cost_model;
  core::quota_limits quota;
  std::uint32_t staging_slots =
      3; ///< layers of a forward batch held in PE HBM at a time: loading, computing, leaving
  double snic_bytes_per_s = 0; ///< a node, each direction; 0: as fast as it goes
  double cnic_bytes_per_s = 0; ///< a GPU, each direction; 0: as fast as it goes
  /// For the bounds of spec §5; without it, reads are placed as queues say.
  std::optional<core::node_shape> node_shape;
  /// Slots of a DE buffer set aside for blocks on their way from HBM to the store. Were they granted from the
  /// rest, a landing could wait for HBM that a write-out pins while the write-out waits behind a landing.
  std::uint32_t write_slots = 4;
  std::uint32_t storage_depth = 16; ///< blocks in flight at a storage NIC
  core::duration fetch_interval = std::chrono::milliseconds{2};
  /// What is not heard of by then is taken for lost: a storage operation, counted from when it is issued; a
  /// host ↔ device copy, likewise; a message between nodes, which is then asked for again.
  core::duration deadline = std::chrono::seconds{30};
  /// A store that has not answered for so many deadlines, while requests wait for the memory which that
  /// holds, is given up, and its node with it.
  std::uint32_t store_patience_deadlines = 4;
  core::duration transfer_deadline = std::chrono::seconds{30};
  core::duration compute_deadline =
      std::chrono::seconds{300}; ///< of a layer in prefill, of a step in decode; then the engine is restarted
  /// How long a store is left alone that is full or fails: by the writes of a node, and by reads that the
  /// other side can do.
  core::duration store_retry_interval = std::chrono::seconds{2};
  /// How long requests may wait for a role that no node has any more; then the run is given up.
  core::duration role_patience{0};
  std::string join_address;         ///< HOST:PORT where nodes may join; "": none can
  std::uint32_t restart_budget = 5; ///< of an engine, in restart_window
  core::duration restart_window = std::chrono::seconds{60};

  const core::clock& reported_clock() const { return wall ? *wall : *clock; }
  bool stores_blocks() const { return policy != core::policy::recompute; }
};

using settings_ptr = std::shared_ptr<const cluster_settings>;

} // namespace dualpath::actors

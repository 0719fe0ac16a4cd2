// Does KV-cache disturb collectives? Two fabrics of this process send 64-byte messages back and forth on the
// collective lane: alone, while KV saturates both directions, and while KV does so on fabrics with paced
// lanes. Also what pacing costs KV when collectives are silent, and what is left to it when they want
// everything. All cases share the machine's cores, and its moods: ratios are of neighbouring runs.
#pragma once

#include "core/policy/link_pacer.hpp"
#include "core/policy/qos.hpp"
#include "core/result.hpp"
#include "net/ucx_fabric.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace dualpath::net {

struct lanes_bench_options {
  std::string transports; ///< as UCX_TLS; empty: UCX chooses
  core::qos_config qos;
  core::pacing_window window;
  std::uint64_t quantum_bytes = 256ULL << 10;
  int kv_niceness = 0; ///< of KV's threads, where lanes are paced
  core::duration collective_busy_poll = default_collective_busy_poll;
  std::uint32_t repeats = 5;           ///< of every case, in turn; medians count
  std::chrono::milliseconds time{300}; ///< of a case
};

struct message_latency {
  double p50_us = 0, p99_us = 0; ///< there and back
  double kv_gb_per_s = 0;        ///< meanwhile, both directions together
};

/// GB/s of both directions together.
struct lane_speeds {
  double kv = 0, collective = 0;
  double kv_share() const { return kv + collective == 0 ? 0 : kv / (kv + collective); }
};

/// Medians of the ratios of neighbouring runs.
struct latency_ratio {
  double p50 = 0, p99 = 0;
};

struct lanes_report {
  message_latency idle, unpaced, paced;
  latency_ratio unpaced_over_idle, paced_over_idle;
  double kv_alone_unpaced = 0, kv_alone_paced = 0; ///< GB/s
  double kv_alone_ratio = 0;                       ///< of neighbouring runs
  lane_speeds both_unpaced, both_paced;            ///< KV and collectives saturate
  double kv_table_share = 0;                       ///< of KV while only collectives want the link too
};

/// Errors: those of the fabric.
core::result<lanes_report> measure_lanes(const lanes_bench_options& options);

} // namespace dualpath::net

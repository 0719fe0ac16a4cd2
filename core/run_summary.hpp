// Figures of one run, computed from its records: latencies, hit rate, the balance of the storage NICs and a
// digest of everything generated. Pure: the same record gives the same summary.
//
// Definitions: TTFT = first token − submission; TTST = second token − first token; TPOT = (last token − first
// token) / (tokens − 1), for rounds of at least two tokens. Hit rate = prompt tokens whose KV came from the
// store / all prompt tokens.
#pragma once

#include "core/run_record.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dualpath::core {

struct percentiles {
  double p50 = 0, p90 = 0, p99 = 0, mean = 0;
};
/// Nearest-rank percentiles; all zero for no samples.
percentiles compute_percentiles(std::vector<double> samples);

struct node_io {
  std::uint32_t node = 0;
  engine_role role = engine_role::prefill;
  std::uint64_t storage_read_bytes = 0, storage_written_bytes = 0;
  std::uint64_t kv_put_bytes = 0, kv_get_bytes = 0, copied_bytes = 0;
};

struct run_summary {
  std::string policy, cluster, model, compute, trace;
  double jct_s = 0;
  std::uint64_t rounds_planned = 0; ///< of the trace; more than `requests` where the run was interrupted
  std::uint64_t requests = 0, prompt_tokens = 0, generated_tokens = 0, hit_tokens = 0, lost_tokens = 0;
  std::uint64_t rerouted = 0; ///< requests routed again after a failure
  std::string digest;         ///< 32 hexadecimal digits; depends on session, round and tokens only
  double hit_rate = 0;
  percentiles ttft_ms, ttst_ms, tpot_ms;
  double storage_bytes_per_s = 0; ///< read by all storage NICs together over the job completion time
  std::vector<node_io> nodes;
  flight_record flights;
  double storage_nic_max_over_avg =
      0; ///< bytes read, over all storage NICs; 1 is even; 0 where nothing was read
  std::uint64_t path_prefill = 0, path_decode = 0, path_split = 0, path_recompute = 0; ///< requests
  std::uint64_t hit_blocks_prefill = 0, hit_blocks_decode = 0; ///< by the side that read them
  std::uint64_t blocks_written = 0, blocks_missing = 0, blocks_corrupt = 0;
  std::uint64_t blocks_unreadable = 0, blocks_unwritten = 0;
  std::uint64_t read_errors = 0, storage_overdue = 0, adopted_tokens = 0;
  std::uint32_t engine_restarts = 0;
  std::map<node_id, pauses> pauses_of; ///< of every node whose process noticed any of its own
  bool store_full = false;
  std::uint64_t alpha_tokens = 0, beta_tokens = 0;
  calibration_record calibration;
  std::vector<std::string> warnings;

  bool interrupted() const { return requests < rounds_planned; }
};

run_summary summarise(const run_record& record);

/// Digest of the tokens generated, over (session, round, tokens) in session and round order.
std::string tokens_digest(std::span<const round_record> rounds);

} // namespace dualpath::core

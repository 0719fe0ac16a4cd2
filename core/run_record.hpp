// What one run of a cluster leaves behind: a record a round and a record a node, from which every report is
// computed. Instants count from the start of the run.
#pragma once

#include "core/clock.hpp"
#include "core/fault_ends.hpp"
#include "core/ids.hpp"
#include "core/pauses.hpp"
#include "core/read_path.hpp"
#include "core/usage_gauge.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dualpath::core {

struct round_record {
  std::string session;
  std::uint32_t round = 0;
  instant submitted{}, first_token{}, second_token{}, finished{};
  std::vector<token_id> prompt;    ///< kept only where tokens are written out
  std::vector<token_id> generated; ///< in order
  std::uint32_t prompt_tokens = 0;
  std::uint32_t hit_tokens = 0;  ///< tokens of the prompt whose KV came from the store
  std::uint32_t lost_tokens = 0; ///< tokens whose stored block turned out bad, short or missing
  std::uint32_t attempts = 1;    ///< 1 + times the request was routed again after a failure
  read_split hits;               ///< the blocks of hit_tokens, by the side that read them
};

struct node_record {
  node_id node;
  engine_role role = engine_role::prefill;
  std::uint64_t storage_read_bytes = 0, storage_written_bytes = 0;
  std::uint64_t kv_put_bytes = 0, kv_get_bytes = 0, copied_bytes = 0;
};

/// Requests given to nodes, and to the scheduler, and not answered to yet.
struct flight_record {
  std::uint64_t bound_bytes = 0;                 ///< of each receiver; 0: none
  std::uint64_t client_peak_bytes = 0;           ///< of rounds that the client had submitted to the scheduler
  std::map<node_id, std::uint64_t> peak_bytes{}; ///< of every node that was given any, lost ones too
};

/// What was measured at start; the inputs of the scheduler's thresholds (spec §7).
struct calibration_record {
  double prefill_base_s = 0, prefill_token_s = 0, prefill_pair_s = 0; ///< see attention_cost_model
  double storage_read_bytes_per_s = 0;                                ///< of a node; 0 where nothing is read
};

struct run_record {
  std::string policy, cluster, model, compute, trace;
  duration jct{};                   ///< first submission to last finished round
  std::vector<round_record> rounds; ///< ordered by session, then round
  std::uint64_t rounds_planned = 0; ///< of the whole trace; more than `rounds` where the run was interrupted
  std::vector<node_record> nodes;
  flight_record flights;
  std::uint64_t blocks_written = 0, blocks_missing = 0, blocks_corrupt = 0;
  std::uint64_t blocks_unreadable = 0; ///< of hits, computed since neither side could read them
  std::uint64_t blocks_unwritten = 0;  ///< I/O errors of the store
  std::uint64_t read_errors = 0;       ///< reads that ended with an I/O error
  std::uint64_t storage_overdue = 0;   ///< operations not answered in time
  std::uint64_t adopted_tokens = 0; ///< of hits read for an earlier attempt at a request, and not read again
  std::uint32_t engine_restarts = 0;
  std::map<node_id, pauses> pauses_of{};        ///< of every node whose process noticed any of its own
  std::uint64_t faults_happened = 0;            ///< injected ones
  std::vector<core::told_faults> told_faults{}; ///< by the processes of other nodes
  std::set<node_id> silent_nodes{};             ///< that served, and told nothing at their end
  bool store_full = false;
  std::uint64_t alpha_tokens = 0, beta_tokens = 0; ///< scheduler thresholds in force (spec §7)
  calibration_record calibration;
  std::vector<std::string> warnings;
  /// Where a run was told to wait for it: what was still held for requests after the last one had ended.
  resource_usage left_behind{};
};

} // namespace dualpath::core

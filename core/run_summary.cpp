#include "core/run_summary.hpp"

#include "core/layout/block_key.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace dualpath::core {

namespace {

void put_u64(std::vector<std::byte>& out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

double to_ms(duration d) { return to_seconds(d) * 1000; }

void add_latencies(const run_record& record, run_summary& s) {
  std::vector<double> ttft, ttst, tpot;
  for (const auto& round : record.rounds) {
    ttft.push_back(to_ms(round.first_token - round.submitted));
    if (round.generated.size() < 2) continue;
    ttst.push_back(to_ms(round.second_token - round.first_token));
    tpot.push_back(to_ms(round.finished - round.first_token)
                   / static_cast<double>(round.generated.size() - 1));
  }
  s.ttft_ms = compute_percentiles(std::move(ttft));
  s.ttst_ms = compute_percentiles(std::move(ttst));
  s.tpot_ms = compute_percentiles(std::move(tpot));
}

void add_rounds(const run_record& record, run_summary& s) {
  s.requests = record.rounds.size();
  for (const auto& round : record.rounds) {
    s.prompt_tokens += round.prompt_tokens;
    s.generated_tokens += round.generated.size();
    s.hit_tokens += round.hit_tokens;
    s.lost_tokens += round.lost_tokens;
    if (round.attempts > 1) ++s.rerouted;
    s.hit_blocks_prefill += round.hits.prefill_blocks;
    s.hit_blocks_decode += round.hits.decode_blocks;
    switch (round.hits.path()) {
    case read_path::none:
      ++s.path_recompute;
      break;
    case read_path::prefill:
      ++s.path_prefill;
      break;
    case read_path::decode:
      ++s.path_decode;
      break;
    case read_path::split:
      ++s.path_split;
      break;
    }
  }
  if (s.prompt_tokens > 0)
    s.hit_rate = static_cast<double>(s.hit_tokens) / static_cast<double>(s.prompt_tokens);
}

void add_nodes(const run_record& record, run_summary& s) {
  std::uint64_t sum = 0, most = 0;
  for (const auto& node : record.nodes) {
    s.nodes.push_back({node.node.value, node.role, node.storage_read_bytes, node.storage_written_bytes,
                       node.kv_put_bytes, node.kv_get_bytes, node.copied_bytes});
    sum += node.storage_read_bytes;
    most = std::max(most, node.storage_read_bytes);
  }
  if (sum > 0)
    s.storage_nic_max_over_avg =
        static_cast<double>(most) * static_cast<double>(record.nodes.size()) / static_cast<double>(sum);
  if (s.jct_s > 0) s.storage_bytes_per_s = static_cast<double>(sum) / s.jct_s;
}

} // namespace

percentiles compute_percentiles(std::vector<double> samples) {
  percentiles p;
  if (samples.empty()) return p;
  std::sort(samples.begin(), samples.end());
  auto n = static_cast<double>(samples.size());
  auto rank = [&](double share) { return samples[static_cast<std::size_t>(std::ceil(share * n)) - 1]; };
  p.p50 = rank(0.5);
  p.p90 = rank(0.9);
  p.p99 = rank(0.99);
  p.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  return p;
}

std::string tokens_digest(std::span<const round_record> rounds) {
  std::vector<const round_record*> order;
  for (const auto& round : rounds) order.push_back(&round);
  std::sort(order.begin(), order.end(), [](const round_record* a, const round_record* b) {
    return a->session != b->session ? a->session < b->session : a->round < b->round;
  });
  // Lengths are hashed too, so that no two different lists of rounds give the same bytes.
  std::vector<std::byte> bytes;
  for (const auto* round : order) {
    put_u64(bytes, round->session.size());
    for (char c : round->session) bytes.push_back(static_cast<std::byte>(c));
    put_u64(bytes, round->round);
    put_u64(bytes, round->generated.size());
    for (auto token : round->generated) put_u64(bytes, token);
  }
  return to_hex(block_key{digest128(bytes)});
}

run_summary summarise(const run_record& record) {
  run_summary s;
  s.policy = record.policy;
  s.cluster = record.cluster;
  s.model = record.model;
  s.compute = record.compute;
  s.trace = record.trace;
  s.jct_s = to_seconds(record.jct);
  s.rounds_planned = record.rounds_planned;
  s.digest = tokens_digest(record.rounds);
  add_rounds(record, s);
  add_latencies(record, s);
  add_nodes(record, s);
  s.flights = record.flights;
  s.blocks_written = record.blocks_written;
  s.blocks_missing = record.blocks_missing;
  s.blocks_corrupt = record.blocks_corrupt;
  s.blocks_unreadable = record.blocks_unreadable;
  s.blocks_unwritten = record.blocks_unwritten;
  s.read_errors = record.read_errors;
  s.storage_overdue = record.storage_overdue;
  s.adopted_tokens = record.adopted_tokens;
  s.engine_restarts = record.engine_restarts;
  s.pauses_of = record.pauses_of;
  s.store_full = record.store_full;
  s.alpha_tokens = record.alpha_tokens;
  s.calibration = record.calibration;
  s.beta_tokens = record.beta_tokens;
  s.warnings = record.warnings;
  return s;
}

} // namespace dualpath::core

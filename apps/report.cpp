#include "apps/report.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace dualpath::apps {

using nlohmann::ordered_json;

namespace {

ordered_json to_json(const core::percentiles& p) { return {{"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}}; }

ordered_json to_json(const core::node_io& node) {
  return {{"node", node.node},
          {"role", core::to_string(node.role)},
          {"storage_read_bytes", node.storage_read_bytes},
          {"storage_written_bytes", node.storage_written_bytes},
          {"kv_put_bytes", node.kv_put_bytes},
          {"kv_get_bytes", node.kv_get_bytes},
          {"copied_bytes", node.copied_bytes}};
}

ordered_json to_json(const core::flight_record& flights) {
  auto peaks = ordered_json::array();
  for (const auto& [node, bytes] : flights.peak_bytes)
    peaks.push_back({{"node", node.value}, {"bytes", bytes}});
  return {{"bound_bytes", flights.bound_bytes},
          {"client_peak_bytes", flights.client_peak_bytes},
          {"peaks", peaks}};
}

ordered_json to_json(const std::map<core::node_id, core::pauses>& pauses_of) {
  auto all = ordered_json::array();
  for (const auto& [node, pauses] : pauses_of)
    all.push_back(
        {{"node", node.value}, {"count", pauses.count}, {"total_s", core::to_seconds(pauses.total)}});
  return all;
}

ordered_json to_json(const core::run_summary& run) {
  ordered_json by_node = ordered_json::array(), nodes = ordered_json::array();
  for (const auto& node : run.nodes) {
    by_node.push_back(node.storage_read_bytes);
    nodes.push_back(to_json(node));
  }
  return {{"policy", run.policy},
          {"cluster", run.cluster},
          {"model", run.model},
          {"compute", run.compute},
          {"trace", run.trace},
          {"jct_s", run.jct_s},
          {"requests", run.requests},
          {"rounds_planned", run.rounds_planned},
          {"interrupted", run.interrupted()},
          {"prompt_tokens", run.prompt_tokens},
          {"generated_tokens", run.generated_tokens},
          {"digest", run.digest},
          {"hit_rate", run.hit_rate},
          {"hit_tokens", run.hit_tokens},
          {"lost_tokens", run.lost_tokens},
          {"ttft_ms", to_json(run.ttft_ms)},
          {"ttst_ms", to_json(run.ttst_ms)},
          {"tpot_ms", to_json(run.tpot_ms)},
          {"storage_bytes_per_s", run.storage_bytes_per_s},
          {"storage_bytes_by_node", by_node},
          {"storage_nic_max_over_avg", run.storage_nic_max_over_avg},
          {"nodes", nodes},
          {"requests_in_flight", to_json(run.flights)},
          {"paths",
           {{"prefill", run.path_prefill},
            {"decode", run.path_decode},
            {"split", run.path_split},
            {"recompute", run.path_recompute}}},
          {"hit_blocks", {{"prefill", run.hit_blocks_prefill}, {"decode", run.hit_blocks_decode}}},
          {"blocks",
           {{"written", run.blocks_written},
            {"missing", run.blocks_missing},
            {"corrupt", run.blocks_corrupt},
            {"unreadable", run.blocks_unreadable},
            {"unwritten", run.blocks_unwritten}}},
          {"rerouted", run.rerouted},
          {"adopted_tokens", run.adopted_tokens},
          {"read_errors", run.read_errors},
          {"storage_overdue", run.storage_overdue},
          {"engine_restarts", run.engine_restarts},
          {"pauses", to_json(run.pauses_of)},
          {"store_full", run.store_full},
          {"alpha_tokens", run.alpha_tokens},
          {"beta_tokens", run.beta_tokens},
          {"calibration",
           {{"prefill_base_s", run.calibration.prefill_base_s},
            {"prefill_token_s", run.calibration.prefill_token_s},
            {"prefill_pair_s", run.calibration.prefill_pair_s},
            {"storage_read_bytes_per_s", run.calibration.storage_read_bytes_per_s}}},
          {"warnings", run.warnings}};
}

core::error cannot_write(const std::string& path) {
  return {core::errc::io, "cannot write '" + path + "': " + std::strerror(errno)};
}

} // namespace

std::string report_json(std::span<const core::run_summary> runs, const unfinished& at) {
  ordered_json report;
  report["runs"] = ordered_json::array();
  for (const auto& run : runs) report["runs"].emplace_back(to_json(run));
  if (!at.policy.empty()) report["incomplete"] = {{"policy", at.policy}, {"why", at.why}};
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

core::result<void> write_report(const std::string& path, std::span<const core::run_summary> runs,
                                const unfinished& at) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out << report_json(runs, at);
  out.close();
  if (!out) return cannot_write(path);
  return {};
}

core::result<void> write_tokens(const std::string& path, const core::run_record& record) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  for (const auto& round : record.rounds) {
    ordered_json line = {{"session", round.session},       {"round", round.round},
                         {"prompt", round.prompt},         {"generated", round.generated},
                         {"hit_tokens", round.hit_tokens}, {"path", core::to_string(round.hits.path())}};
    out << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  }
  out.close();
  if (!out) return cannot_write(path);
  return {};
}

} // namespace dualpath::apps

#include "apps/report.hpp"

#include "core/units.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

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

ordered_json to_json(const core::run_summary& run) {
  ordered_json by_node = ordered_json::array(), nodes = ordered_json::array();
  for (const auto& node : run.nodes) {
    by_node.push_back(node.storage_read_bytes);
    nodes.push_back(to_json(node));
  }
  return {
      {"policy", run.policy},
      {"cluster", run.cluster},
      {"model", run.model},
      {"compute", run.compute},
      {"trace", run.trace},
      {"jct_s", run.jct_s},
      {"requests", run.requests},
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
      {"paths",
       {{"prefill", run.path_prefill}, {"decode", run.path_decode}, {"recompute", run.path_recompute}}},
      {"blocks",
       {{"written", run.blocks_written}, {"missing", run.blocks_missing}, {"corrupt", run.blocks_corrupt}}},
      {"rerouted", run.rerouted},
      {"engine_restarts", run.engine_restarts},
      {"store_full", run.store_full},
      {"alpha_tokens", run.alpha_tokens},
      {"beta_tokens", run.beta_tokens},
      {"warnings", run.warnings}};
}

core::error cannot_write(const std::string& path) {
  return {core::errc::io, "cannot write '" + path + "': " + std::strerror(errno)};
}

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string triple(const core::percentiles& p) {
  return printed("%.1f", p.p50) + " / " + printed("%.1f", p.p90) + " / " + printed("%.1f", p.p99);
}

std::string path_counts(const core::run_summary& run) {
  return std::to_string(run.path_prefill) + " / " + std::to_string(run.path_decode) + " / "
         + std::to_string(run.path_recompute);
}

using text_row = std::vector<std::string>;

std::string aligned(const std::vector<text_row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line = row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (std::size_t i = 1; i < row.size(); ++i)
      line += "  " + std::string(widths[i] - row[i].size(), ' ') + row[i];
    text += line + "\n";
  }
  return text;
}

/// "All digests match: ..." or the groups of policies that agree with each other.
std::string digest_line(std::span<const core::run_summary> runs) {
  if (runs.size() < 2) return "";
  if (digests_agree(runs))
    return "Digests match: all " + std::to_string(runs.size()) + " policies generated the same tokens.\n";
  std::string text = "DIGESTS DIFFER:";
  std::set<std::string> told;
  for (const auto& run : runs) {
    if (!told.insert(run.digest).second) continue;
    text += told.size() > 1 ? "; " : " ";
    std::string names;
    for (const auto& other : runs)
      if (other.digest == run.digest) names += (names.empty() ? "" : " = ") + other.policy;
    text += names + " (" + run.digest + ")";
  }
  return text + ".\n";
}

std::string warning_lines(const core::run_summary& run, const std::string& prefix) {
  std::string text;
  for (const auto& warning : run.warnings) text += "Warning: " + prefix + warning + "\n";
  return text;
}

} // namespace

std::string report_json(std::span<const core::run_summary> runs) {
  ordered_json report;
  report["runs"] = ordered_json::array();
  for (const auto& run : runs) report["runs"].emplace_back(to_json(run));
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

core::result<void> write_report(const std::string& path, std::span<const core::run_summary> runs) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out << report_json(runs);
  out.close();
  if (!out) return cannot_write(path);
  return {};
}

core::result<void> write_tokens(const std::string& path, const core::run_record& record) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  for (const auto& round : record.rounds) {
    ordered_json line = {{"session", round.session},       {"round", round.round},
                         {"prompt", round.prompt},         {"generated", round.generated},
                         {"hit_tokens", round.hit_tokens}, {"path", core::to_string(round.path)}};
    out << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  }
  out.close();
  if (!out) return cannot_write(path);
  return {};
}

std::string format_run(const core::run_summary& run) {
  std::vector<text_row> rows{
      {"policy", run.policy + " on " + run.cluster},
      {"requests", std::to_string(run.requests)},
      {"job completion time", printed("%.2f s", run.jct_s)},
      {"hit rate", printed("%.1f %%", run.hit_rate * 100)},
      {"TTFT ms p50 / p90 / p99", triple(run.ttft_ms)},
      {"TTST ms p50 / p90 / p99", triple(run.ttst_ms)},
      {"TPOT ms p50 / p90 / p99", triple(run.tpot_ms)},
      {"read from storage", core::format_rate(run.storage_bytes_per_s)},
      {"storage NIC max / avg", printed("%.2f", run.storage_nic_max_over_avg)},
      {"paths prefill / decode / recompute", path_counts(run)},
      {"digest", run.digest},
  };
  if (run.lost_tokens > 0)
    rows.push_back({"tokens of lost blocks, recomputed", std::to_string(run.lost_tokens)});
  if (run.rerouted > 0) rows.push_back({"requests routed again", std::to_string(run.rerouted)});
  if (run.engine_restarts > 0) rows.push_back({"engine restarts", std::to_string(run.engine_restarts)});
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row[0].size());
  std::string text;
  for (const auto& row : rows) text += row[0] + std::string(width - row[0].size() + 2, ' ') + row[1] + "\n";
  if (run.store_full) text += "Warning: the store is full; later blocks were not written.\n";
  return text + warning_lines(run, "");
}

std::string format_comparison(std::span<const core::run_summary> runs) {
  const core::run_summary* basic = nullptr;
  for (const auto& run : runs)
    if (run.policy == core::to_string(core::policy::basic)) basic = &run;
  std::vector<text_row> rows{{"policy", "JCT s", "vs basic", "hit rate", "TTFT ms p50 / p90 / p99",
                              "TPOT ms p50 / p90 / p99", "storage read", "NIC max/avg", "PE / DE / recompute",
                              "digest"}};
  for (const auto& run : runs)
    rows.push_back({run.policy, printed("%.2f", run.jct_s),
                    basic != nullptr && run.jct_s > 0 ? printed("%.2fx", basic->jct_s / run.jct_s) : "-",
                    printed("%.1f %%", run.hit_rate * 100), triple(run.ttft_ms), triple(run.tpot_ms),
                    core::format_rate(run.storage_bytes_per_s), printed("%.2f", run.storage_nic_max_over_avg),
                    path_counts(run), run.digest.substr(0, 12)});
  auto text = aligned(rows);
  for (const auto& run : runs) {
    if (run.store_full)
      text += "Warning: " + run.policy + ": the store is full; later blocks were not written.\n";
    text += warning_lines(run, run.policy + ": ");
  }
  return text + digest_line(runs);
}

bool digests_agree(std::span<const core::run_summary> runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [&](const core::run_summary& run) { return run.digest == runs.front().digest; });
}

} // namespace dualpath::apps

// What a terminal shows of runs: one column a policy, one row a figure.
#include "apps/report.hpp"
#include "core/units.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

namespace dualpath::apps {

namespace {

using core::run_summary;
using run_list = std::span<const run_summary>;
using text_row = std::vector<std::string>;
using cell = std::function<std::string(const run_summary&)>;

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string triple(const core::percentiles& p) {
  return printed("%.1f", p.p50) + " / " + printed("%.1f", p.p90) + " / " + printed("%.1f", p.p99);
}

const run_summary* find_basic(run_list runs) {
  for (const auto& run : runs)
    if (run.policy == core::to_string(core::policy::basic)) return &run;
  return nullptr;
}

void add_row(std::vector<text_row>& rows, const std::string& what, run_list runs, const cell& text) {
  text_row row{what};
  for (const auto& run : runs) row.push_back(text(run));
  rows.push_back(std::move(row));
}

void add_count_row(std::vector<text_row>& rows, const std::string& what, run_list runs,
                   const std::function<std::uint64_t(const run_summary&)>& count) {
  if (std::none_of(runs.begin(), runs.end(), [&](auto& run) { return count(run) > 0; })) return;
  add_row(rows, what, runs, [&](auto& run) { return std::to_string(count(run)); });
}

void add_time_rows(std::vector<text_row>& rows, run_list runs) {
  add_row(rows, "job completion time", runs, [](auto& run) { return printed("%.2f s", run.jct_s); });
  if (const auto* basic = find_basic(runs); basic && runs.size() > 1)
    add_row(rows, "speed-up over basic", runs,
            [&](auto& run) { return run.jct_s > 0 ? printed("%.2fx", basic->jct_s / run.jct_s) : "-"; });
  add_row(rows, "TTFT ms p50 / p90 / p99", runs, [](auto& run) { return triple(run.ttft_ms); });
  add_row(rows, "TTST ms p50 / p90 / p99", runs, [](auto& run) { return triple(run.ttst_ms); });
  add_row(rows, "TPOT ms p50 / p90 / p99", runs, [](auto& run) { return triple(run.tpot_ms); });
}

void add_storage_rows(std::vector<text_row>& rows, run_list runs) {
  add_row(rows, "hit rate", runs, [](auto& run) { return printed("%.1f %%", run.hit_rate * 100); });
  add_row(rows, "read from storage", runs,
          [](auto& run) { return core::format_rate(run.storage_bytes_per_s); });
  for (std::size_t n = 0; n < runs.front().nodes.size(); ++n) {
    const auto& node = runs.front().nodes[n];
    add_row(rows,
            "  storage NIC of node " + std::to_string(node.node) + " (" + core::to_string(node.role) + ")",
            runs, [n](auto& run) {
              return n < run.nodes.size() ? core::format_bytes(run.nodes[n].storage_read_bytes) : "-";
            });
  }
  add_row(rows, "storage NIC max / avg", runs,
          [](auto& run) { return printed("%.2f", run.storage_nic_max_over_avg); });
  add_row(rows, "paths prefill / decode / recompute", runs, [](auto& run) {
    return std::to_string(run.path_prefill) + " / " + std::to_string(run.path_decode) + " / "
           + std::to_string(run.path_recompute);
  });
  add_count_row(rows, "  split over both sides", runs, [](auto& run) { return run.path_split; });
}

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

/// "Digests match: ..." or the groups of policies that agree with each other.
std::string digest_line(run_list runs) {
  if (runs.size() < 2) return "";
  if (std::any_of(runs.begin(), runs.end(), [](auto& run) { return run.interrupted(); }))
    return "Digests cannot be compared: not every run served the whole trace.\n";
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

/// What the scheduler was told, of the first run that reads storage: all runs of a comparison measure the
/// same.
std::string calibration_line(run_list runs) {
  auto reads = [](auto& run) { return run.calibration.storage_read_bytes_per_s > 0; };
  auto found = std::find_if(runs.begin(), runs.end(), reads);
  const auto& run = found == runs.end() ? runs.front() : *found;
  const auto& c = run.calibration;
  return "Measured at start: prefill " + core::format_duration(core::from_seconds(c.prefill_base_s)) + " + "
         + core::format_duration(core::from_seconds(c.prefill_token_s)) + " a token + "
         + printed("%.3g ns", c.prefill_pair_s * 1e9) + " a pair, storage reads "
         + core::format_rate(c.storage_read_bytes_per_s)
         + " a node; so alpha = " + core::format_count(static_cast<double>(run.alpha_tokens))
         + ", beta = " + core::format_count(static_cast<double>(run.beta_tokens)) + " tokens.\n";
}

} // namespace

std::string format_comparison(run_list runs) {
  std::vector<text_row> rows;
  add_row(rows, runs.front().cluster + ", " + std::to_string(runs.front().requests) + " requests", runs,
          [](auto& run) { return run.policy; });
  add_time_rows(rows, runs);
  add_storage_rows(rows, runs);
  add_count_row(rows, "tokens of lost blocks, recomputed", runs, [](auto& run) { return run.lost_tokens; });
  add_count_row(rows, "engine restarts", runs, [](auto& run) { return run.engine_restarts; });
  add_count_row(rows, "pauses of processes", runs, [](auto& run) {
    std::uint64_t count = 0;
    for (auto& [node, pauses] : run.pauses_of) count += pauses.count;
    return count;
  });
  add_count_row(rows, "requests routed again", runs, [](auto& run) { return run.rerouted; });
  add_row(rows, "digest", runs,
          [&](auto& run) { return runs.size() == 1 ? run.digest : run.digest.substr(0, 16); });
  auto text = aligned(rows) + calibration_line(runs);
  for (const auto& run : runs)
    for (const auto& warning : run.warnings)
      text += "Warning: " + (runs.size() > 1 ? run.policy + ": " : "") + warning + "\n";
  return text + digest_line(runs);
}

std::string format_run(const run_summary& run) { return format_comparison({&run, 1}); }

bool digests_agree(run_list runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [&](const run_summary& run) { return run.digest == runs.front().digest; });
}

} // namespace dualpath::apps

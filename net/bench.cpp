#include "net/bench.hpp"

#include "core/cpu_time.hpp"
#include "net/bench_fabric.hpp"
#include "net/bench_raw.hpp"

#include <algorithm>

namespace dualpath::net {
namespace {

constexpr std::uint64_t region_bytes = 128ULL << 20;
constexpr std::uint64_t warm_up_transfers = 16;

template <class Pair>
core::result<bench_figures> run_once(Pair& pair, const bench_row& row, std::uint64_t transfers,
                                     std::uint32_t in_flight) {
  if (auto warm = pair.run(row, warm_up_transfers, in_flight); !warm) return warm.error();
  auto cpu = core::process_cpu_seconds();
  auto run = pair.run(row, transfers, in_flight);
  if (!run) return run.error();
  auto gigabytes = static_cast<double>(row.transfer_bytes() * run->transfers) * 1e-9;
  return bench_figures{gigabytes / run->seconds, run->seconds * 1e6 / static_cast<double>(run->transfers),
                       (core::process_cpu_seconds() - cpu) / gigabytes};
}

template <class Runs, class Value>
double median(const Runs& runs, Value value) {
  std::vector<double> values;
  for (auto& run : runs) values.push_back(value(run));
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bench_figures median_of(const std::vector<bench_figures>& runs) {
  return {median(runs, [](auto& run) { return run.gb_per_s; }),
          median(runs, [](auto& run) { return run.us_per_transfer; }),
          median(runs, [](auto& run) { return run.cpu_s_per_gb; })};
}

core::result<void> measure(bench_row& row, fabric_pair& fabric, raw_pair& raw, const bench_options& options) {
  auto transfers = std::clamp<std::uint64_t>(options.bytes_per_run / row.transfer_bytes(), 16,
                                             std::max(16u, options.transfers_max));
  std::vector<bench_figures> of_fabric, of_raw;
  std::vector<double> ratios;
  for (std::uint32_t i = 0; i < std::max(1u, options.runs); ++i) {
    auto ours = run_once(fabric, row, transfers, options.in_flight);
    if (!ours) return ours.error();
    auto theirs = run_once(raw, row, transfers, options.in_flight);
    if (!theirs) return theirs.error();
    of_fabric.push_back(*ours);
    of_raw.push_back(*theirs);
    ratios.push_back(ours->gb_per_s / theirs->gb_per_s);
  }
  row.fabric = median_of(of_fabric);
  row.raw = median_of(of_raw);
  row.ratio = median(ratios, [](double ratio) { return ratio; });
  return {};
}

std::vector<bench_row> all_rows(const bench_options& options) {
  std::vector<bench_row> rows;
  for (bool both_ways : {false, true}) {
    for (bool put : {true, false}) {
      for (auto bytes : options.piece_bytes)
        rows.push_back({.put = put, .both_ways = both_ways, .piece_bytes = bytes});
      rows.push_back({.put = put, .both_ways = both_ways, .piece_bytes = 4096, .pieces = 64});
    }
  }
  return rows;
}

} // namespace

core::result<std::vector<bench_row>> measure_fabric(const bench_options& options) {
  auto fabric = fabric_pair::open(options, region_bytes);
  if (!fabric) return fabric.error();
  auto raw = raw_pair::open(options.transports, region_bytes);
  if (!raw) return raw.error();
  auto rows = all_rows(options);
  for (auto& row : rows) {
    if (auto measured = measure(row, **fabric, **raw, options); !measured) return measured.error();
  }
  return rows;
}

} // namespace dualpath::net

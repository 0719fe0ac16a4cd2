// The bench measures what it says, whatever the machine's speed.
#include "net/bench.hpp"
#include "net/bench_lanes.hpp"

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>

using namespace dualpath;

TEST_CASE("the bench measures every case beside raw UCX") {
  net::bench_options options;
  options.transports = GENERATE(as<std::string>{}, "tcp", "posix,cma,self,tcp");
  bool long_run = std::getenv("DUALPATH_BENCH") != nullptr;
  if (!long_run) {
    options.piece_bytes = {64 << 10, 1 << 20};
    options.bytes_per_run = 2ULL << 20;
    options.transfers_max = 32;
    options.runs = 1;
  }
  auto rows = net::measure_fabric(options);
  if (!rows) FAIL(rows.error().text);
  CHECK(rows->size() == 4 * (options.piece_bytes.size() + 1));
  for (auto& row : *rows) {
    for (auto& figures : {row.fabric, row.raw}) {
      CHECK(figures.gb_per_s > 0);
      CHECK(figures.us_per_transfer > 0);
      CHECK(figures.cpu_s_per_gb > 0);
    }
    CHECK(row.ratio > 0);
    if (!long_run) continue;
    std::printf("%-20s %s %s %3u x %8llu B: fabric %6.2f GB/s, raw %6.2f GB/s, ratio %.2f, %.2f CPU s/GB\n",
                options.transports.c_str(), row.put ? "put" : "get", row.both_ways ? "both" : "one ",
                row.pieces, static_cast<unsigned long long>(row.piece_bytes), row.fabric.gb_per_s,
                row.raw.gb_per_s, row.ratio, row.fabric.cpu_s_per_gb);
  }
}

TEST_CASE("the bench of lanes measures every case, with and without paced lanes") {
  net::lanes_bench_options options;
  options.transports = GENERATE(as<std::string>{}, "tcp", "posix,cma,self,tcp");
  options.repeats = 1;
  options.time = std::chrono::milliseconds{20};
  auto report = net::measure_lanes(options);
  if (!report) FAIL(report.error().text);
  for (auto& latency : {report->idle, report->unpaced, report->paced}) {
    CHECK(latency.p50_us > 0);
    CHECK(latency.p99_us >= latency.p50_us);
  }
  CHECK(report->kv_table_share > 0);
  CHECK(report->kv_table_share < 0.01);
}

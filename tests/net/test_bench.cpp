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
  options.bytes_per_case = long_run ? 2ULL << 30 : 8ULL << 20;
  if (!long_run) options.transfers_max = 200;
  auto rows = net::measure_fabric(options);
  if (!rows) FAIL(rows.error().text);
  CHECK(rows->size() == 10);
  for (auto& row : *rows) {
    CHECK(row.fabric_gb_per_s > 0);
    CHECK(row.raw_gb_per_s > 0);
    CHECK(row.fabric_cpu_s_per_gb > 0);
    if (!long_run) continue;
    std::printf("%-20s %s %3u x %8llu B: fabric %6.2f GB/s %9.1f us, raw %6.2f GB/s %9.1f us, ratio %.2f, "
                "%.2f CPU s/GB\n",
                options.transports.c_str(), row.put ? "put" : "get", row.pieces,
                static_cast<unsigned long long>(row.piece_bytes), row.fabric_gb_per_s,
                row.fabric_us_per_transfer, row.raw_gb_per_s, row.raw_us_per_transfer, row.ratio(),
                row.fabric_cpu_s_per_gb);
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

#include "apps/cmd_bench_net.hpp"

#include "apps/command.hpp"
#include "core/units.hpp"
#include "net/bench.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

int bench_net(const net::bench_options& options) {
  auto rows = net::measure_fabric(options);
  if (!rows) return report_error(rows.error());
  std::printf("%-4s %-16s %12s %12s %7s %12s %12s\n", "op", "pieces", "fabric GB/s", "raw UCX GB/s", "ratio",
              "us/transfer", "CPU s/GB");
  for (auto& row : *rows) {
    auto pieces = std::to_string(row.pieces) + " x " + core::format_bytes(row.piece_bytes);
    std::printf("%-4s %-16s %12.2f %12.2f %7.2f %12.1f %12.2f\n", row.put ? "put" : "get", pieces.c_str(),
                row.fabric_gb_per_s, row.raw_gb_per_s, row.ratio(), row.fabric_us_per_transfer,
                row.fabric_cpu_s_per_gb);
  }
  return exit_ok;
}

} // namespace

void add_bench_net(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("net", "Speed of the fabric beside raw UCX, in this process");
  auto options = std::make_shared<net::bench_options>();
  command->add_option("--transports", options->transports, "As UCX_TLS, e.g. tcp or posix,cma,self,tcp")
      ->type_name("LIST");
  command->add_option("--in-flight", options->in_flight, "Transfers at a time")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str();
  command->callback([options, &exit_code] { exit_code = bench_net(*options); });
}

} // namespace dualpath::apps

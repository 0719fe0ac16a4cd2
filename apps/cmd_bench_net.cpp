#include "apps/cmd_bench_net.hpp"

#include "apps/command.hpp"
#include "core/units.hpp"
#include "net/bench.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace dualpath::apps {

namespace {

struct bench_net_options {
  net::bench_options bench;
  std::uint32_t busy_poll_us = 0;
  std::vector<std::string> sizes;
};

int bench_net(const bench_net_options& options) {
  auto bench = options.bench;
  bench.busy_poll = std::chrono::microseconds{options.busy_poll_us};
  if (!options.sizes.empty()) bench.piece_bytes.clear();
  for (auto& size : options.sizes) {
    auto bytes = core::parse_bytes(size);
    if (!bytes) return report_error(bytes.error());
    if (*bytes == 0 || *bytes > net::bench_piece_bytes_max)
      return report_error(
          {core::errc::invalid_argument, "--bytes " + size + ": a piece has from 1 byte to "
                                             + core::format_bytes(net::bench_piece_bytes_max)});
    bench.piece_bytes.push_back(*bytes);
  }
  auto rows = net::measure_fabric(bench);
  if (!rows) return report_error(rows.error());
  std::printf("%-4s %-5s %-14s %11s %8s %6s %9s %11s %8s\n", "op", "ways", "pieces", "fabric GB/s",
              "raw GB/s", "ratio", "us/xfer", "CPU s/GB", "raw");
  for (auto& row : *rows) {
    auto pieces = std::to_string(row.pieces) + " x " + core::format_bytes(row.piece_bytes);
    std::printf("%-4s %-5s %-14s %11.2f %8.2f %6.2f %9.1f %11.2f %8.2f\n", row.put ? "put" : "get",
                row.both_ways ? "both" : "one", pieces.c_str(), row.fabric.gb_per_s, row.raw.gb_per_s,
                row.ratio, row.fabric.us_per_transfer, row.fabric.cpu_s_per_gb, row.raw.cpu_s_per_gb);
  }
  return exit_ok;
}

} // namespace

void add_bench_net(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("net", "Speed of the fabric beside raw UCX, in this process");
  auto options = std::make_shared<bench_net_options>();
  command->add_option("--transports", options->bench.transports, "As UCX_TLS, e.g. tcp or posix,cma,self,tcp")
      ->type_name("LIST");
  command->add_option("--bytes", options->sizes, "Sizes of a piece (default 4KiB,64KiB,1MiB,8MiB)")
      ->type_name("LIST")
      ->delimiter(',');
  command->add_option("--in-flight", options->bench.in_flight, "Transfers at a time, each way")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str();
  command
      ->add_option("--busy-poll", options->busy_poll_us,
                   "How long a lane of the fabric spins after its last work before it sleeps")
      ->type_name("MICROSECONDS")
      ->capture_default_str();
  command->add_option("--runs", options->bench.runs, "Of each row; the fabric and raw UCX take turns")
      ->type_name("N")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  command->callback([options, &exit_code] { exit_code = bench_net(*options); });
}

} // namespace dualpath::apps

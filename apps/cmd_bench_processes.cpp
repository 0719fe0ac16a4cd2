#include "apps/cmd_bench_processes.hpp"

#include "apps/command.hpp"
#include "core/units.hpp"
#include "net/bench_processes.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct process_arguments {
  std::string block = "1MiB";
  net::process_bench_options bench;
};

int bench_processes(process_arguments arguments) {
  auto bytes = core::parse_bytes(arguments.block);
  if (!bytes || *bytes == 0)
    return report_error({core::errc::invalid_argument,
                         "--block: '" + arguments.block + "' is not a size above 0; write it like 1MiB"});
  arguments.bench.block_bytes = *bytes;
  auto measured = net::bench_processes(arguments.bench);
  if (!measured) return report_error(measured.error());
  std::printf("put  %.2f GB/s\nget  %.2f GB/s\n", measured->put_gb_per_s, measured->get_gb_per_s);
  return exit_ok;
}

} // namespace

void add_bench_processes(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("processes",
                                       "Speed of the fabric between two processes, batch by batch, verified");
  auto a = std::make_shared<process_arguments>();
  command->add_option("--transports", a->bench.transports, "As UCX_TLS, e.g. tcp; without it UCX chooses")
      ->type_name("LIST");
  command->add_option("--block", a->block, "Size of a block")->type_name("BYTES")->capture_default_str();
  command->add_option("--blocks", a->bench.blocks, "Of a batch")
      ->type_name("N")
      ->check(CLI::Range(1U, 1000000U))
      ->capture_default_str();
  command->add_option("--rounds", a->bench.rounds, "Batches each way, of which the median counts")
      ->type_name("N")
      ->check(CLI::Range(1U, 100000U))
      ->capture_default_str();
  command->callback([a, &exit_code] { exit_code = bench_processes(*a); });
}

} // namespace dualpath::apps

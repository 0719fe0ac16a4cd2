#include "apps/cmd_bench_copy.hpp"

#include "apps/command.hpp"
#include "core/units.hpp"
#include "net/copy_bench.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct copy_arguments {
  std::string bytes = "64KiB";
  net::copy_bench_options bench;
};

int bench_copy(copy_arguments arguments) {
  auto bytes = core::parse_bytes(arguments.bytes);
  if (!bytes || *bytes == 0)
    return report_error({core::errc::invalid_argument,
                         "--bytes: '" + arguments.bytes + "' is not a size above 0; write it like 64KiB"});
  arguments.bench.piece_bytes = *bytes;
  auto measured = net::bench_copies(arguments.bench);
  if (!measured) return report_error(measured.error());
  std::printf("choice  %s%s%s\n", measured->choice.c_str(), measured->reason.empty() ? "" : ": ",
              measured->reason.c_str());
  std::printf("submit  %.2f us a copy of %u pieces, %.3f us a piece", measured->submit_us,
              arguments.bench.pieces, measured->submit_us / arguments.bench.pieces);
  if (measured->doorbells > 0) std::printf(", %.1f doorbells a copy", measured->doorbells);
  std::printf("\nspeed   %.2f GB/s, one copy at a time, verified\n", measured->gb_per_s);
  std::printf("memcpy  %.2f us a copy, which is its submission too\n", measured->memcpy_us);
  return exit_ok;
}

} // namespace

void add_bench_copy(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand(
      "copy",
      "What copies inside this machine are made with, the NIC or memcpy, and what submitting one costs");
  auto a = std::make_shared<copy_arguments>();
  command->add_option("--device", a->bench.device, "RDMA device; without it the first with an active port")
      ->type_name("NAME");
  command->add_option("--bytes", a->bytes, "Of a piece")->type_name("BYTES")->capture_default_str();
  command->add_option("--pieces", a->bench.pieces, "Of a copy")
      ->type_name("N")
      ->check(CLI::Range(1U, 100000U))
      ->capture_default_str();
  command->add_option("--rounds", a->bench.rounds, "Copies, one after another")
      ->type_name("N")
      ->check(CLI::Range(1U, 1000000U))
      ->capture_default_str();
  command->callback([a, &exit_code] { exit_code = bench_copy(*a); });
}

} // namespace dualpath::apps

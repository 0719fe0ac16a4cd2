#include "apps/cmd_bench_copy.hpp"

#include "apps/command.hpp"
#include "apps/copy_bench.hpp"
#include "core/units.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct copy_arguments {
  std::string bytes = "64KiB", copies = "auto", compute = "cpu";
  copy_bench_options bench;
};

core::error named(const char* flag, const core::error& why) {
  return {why.code, std::string{flag} + ": " + why.text};
}

void print(const copy_bench_result& measured, std::uint32_t pieces) {
  std::printf("choice  %s%s%s\n", measured.choice.c_str(), measured.reason.empty() ? "" : ": ",
              measured.reason.c_str());
  auto& chosen = measured.chosen;
  std::printf("submit  %.0f ns a copy of %u pieces, %.1f ns a piece", chosen.submit_ns, pieces,
              chosen.submit_ns / pieces);
  if (measured.doorbells > 0) std::printf(", %.1f doorbells a copy", measured.doorbells);
  std::printf("\nspeed   %.2f GB/s, one copy at a time, there and back, verified; %.1f us of CPU a copy\n",
              chosen.gb_per_s, chosen.cpu_us);
  auto& device = measured.device;
  std::printf("beside  the device's own copies: submit %.0f ns, %.2f of it; %.2f GB/s; %.1f us of CPU\n",
              device.submit_ns, chosen.submit_ns / device.submit_ns, device.gb_per_s, device.cpu_us);
  std::printf("        memcpy in host memory: %.0f ns, %.4f of it, as its submission is the copy\n",
              measured.memcpy_ns, chosen.submit_ns / measured.memcpy_ns);
}

int bench_copy(copy_arguments arguments) {
  auto bytes = core::parse_bytes(arguments.bytes);
  if (!bytes || *bytes == 0)
    return report_error({core::errc::invalid_argument,
                         "--bytes: '" + arguments.bytes + "' is not a size above 0; write it like 64KiB"});
  arguments.bench.piece_bytes = *bytes;
  auto copies = parse_copies(arguments.copies);
  if (!copies) return report_error(named("--copies", copies.error()));
  arguments.bench.copies = *copies;
  auto compute = parse_compute(arguments.compute);
  if (!compute) return report_error(named("--compute", compute.error()));
  arguments.bench.compute = *compute;
  auto measured = bench_copies(arguments.bench);
  if (!measured) return report_error(measured.error());
  print(*measured, arguments.bench.pieces);
  return exit_ok;
}

} // namespace

void add_bench_copy(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand(
      "copy", "What copies between host and device memory are made with here, as a run chooses it, and what "
              "submitting one costs");
  auto a = std::make_shared<copy_arguments>();
  command->add_option("--copies", a->copies, "As of run: auto, device, verbs or verbs:mlx5_0")
      ->type_name("HOW")
      ->capture_default_str();
  command->add_option("--compute", a->compute, "Compute device, as of run")
      ->type_name("DEVICE")
      ->capture_default_str();
  command->add_option("--bytes", a->bytes, "Of a piece")->type_name("BYTES")->capture_default_str();
  command->add_option("--pieces", a->bench.pieces, "Of a copy")
      ->type_name("N")
      ->check(CLI::Range(1U, 100000U))
      ->capture_default_str();
  command->add_option("--rounds", a->bench.rounds, "Copies each way, one after another")
      ->type_name("N")
      ->check(CLI::Range(1U, 1000000U))
      ->capture_default_str();
  command->callback([a, &exit_code] { exit_code = bench_copy(*a); });
}

} // namespace dualpath::apps

#include "apps/cmd_bench.hpp"

#include "apps/cmd_bench_copy.hpp"
#include "apps/cmd_bench_lanes.hpp"
#include "apps/cmd_bench_net.hpp"
#include "apps/cmd_bench_processes.hpp"
#include "apps/cmd_bench_scheduler.hpp"
#include "apps/cmd_bench_store.hpp"
#include "apps/command.hpp"
#include "kernels/cpu/bench.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct compute_arguments {
  std::string model = "small";
  std::uint32_t threads = 0;
  kernels::compute_bench_options bench;
};

int bench_compute(const compute_arguments& arguments) {
  auto model = kernels::load_model(arguments.model);
  if (!model) return report_error(model.error());
  kernels::cpu_options device;
  device.threads = arguments.threads;
  auto measured = kernels::bench_compute(*model, device, arguments.bench);
  if (!measured) return report_error(measured.error());
  std::printf("model    %s\n", arguments.model.c_str());
  std::printf("prefill  %.0f tokens/s, %.1f GFLOP/s\n", measured->prefill_tokens_per_s,
              measured->prefill_gflop_per_s);
  std::printf("decode   %.1f tokens/s at a context of %u\n", measured->decode_tokens_per_s,
              arguments.bench.context_tokens);
  return exit_ok;
}

void add_compute(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("compute", "Prefill and decode speed of a model on the CPU");
  auto a = std::make_shared<compute_arguments>();
  auto count = [&](const char* flag, std::uint32_t& target, std::uint32_t least, const char* help) {
    command->add_option(flag, target, help)
        ->type_name("N")
        ->check(CLI::Range(least, 1000000U))
        ->capture_default_str();
  };
  command->add_option("--model", a->model, "tiny, small or the folder of a model")
      ->type_name("MODEL")
      ->capture_default_str();
  count("--threads", a->threads, 0, "CPU threads; 0: by the cores at hand");
  count("--prefill-tokens", a->bench.prefill_tokens, 1, "Tokens of a prefill");
  count("--context-tokens", a->bench.context_tokens, 1, "Cached tokens when decoding starts");
  count("--decode-tokens", a->bench.decode_tokens, 1, "Tokens decoded");
  count("--repeats", a->bench.repeats, 1, "Runs, of which the best counts");
  command->callback([a, &exit_code] { exit_code = bench_compute(*a); });
}

} // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("bench", "Measure compute, storage and networks of this machine");
  command->require_subcommand(1);
  add_compute(*command, exit_code);
  add_bench_store(*command, exit_code);
  add_bench_net(*command, exit_code);
  add_bench_processes(*command, exit_code);
  add_bench_copy(*command, exit_code);
  add_bench_lanes(*command, exit_code);
  add_bench_scheduler(*command, exit_code);
}

} // namespace dualpath::apps

#include "apps/cmd_bench.hpp"

#include "apps/cmd_bench_copy.hpp"
#include "apps/cmd_bench_lanes.hpp"
#include "apps/cmd_bench_net.hpp"
#include "apps/cmd_bench_scheduler.hpp"
#include "apps/command.hpp"
#include "core/units.hpp"
#include "kernels/cpu/bench.hpp"
#include "storage/bench.hpp"

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

struct store_arguments {
  std::string dir, block = "4MiB";
  storage::bench_options bench;
  bool buffered = false;
};

int bench_store(store_arguments arguments) {
  auto block_bytes = core::parse_bytes(arguments.block);
  if (!block_bytes || *block_bytes == 0)
    return report_error({core::errc::invalid_argument,
                         "--block: '" + arguments.block + "' is not a size above 0; write it like 4MiB"});
  arguments.bench.directory = arguments.dir;
  arguments.bench.block_bytes = *block_bytes;
  arguments.bench.direct_io = !arguments.buffered;
  auto measured = storage::bench_store(arguments.bench);
  if (!measured) return report_error(measured.error());
  std::printf("store     %s\n", measured->store.c_str());
  std::printf("write     %.2f GB/s, %.2f CPU seconds a GB\n", measured->write_gb_per_s,
              measured->write_cpu_s_per_gb);
  std::printf("read      %.2f GB/s, %.2f CPU seconds a GB, verified\n", measured->read_gb_per_s,
              measured->read_cpu_s_per_gb);
  std::printf("checksum  %.2f GB/s a core\n", measured->checksum_gb_per_s);
  std::printf("scan      %.0f blocks/s\n", measured->scan_blocks_per_s);
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

void add_store(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("store", "Speed of a block store in a folder, verified reads");
  auto a = std::make_shared<store_arguments>();
  command->add_option("dir", a->dir, "Folder on the disk to measure; the blocks written are removed")
      ->required();
  command->add_option("--block", a->block, "Size of a block, as in 4MiB")
      ->type_name("BYTES")
      ->capture_default_str();
  command->add_option("--blocks", a->bench.blocks, "How many")
      ->type_name("N")
      ->check(CLI::Range(1U, 1000000U))
      ->capture_default_str();
  command->add_option("--in-flight", a->bench.in_flight, "Operations at a time")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str();
  command->add_flag("--buffered", a->buffered, "Through the page cache");
  command->callback([a, &exit_code] { exit_code = bench_store(*a); });
}

} // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("bench", "Measure compute, storage and networks of this machine");
  command->require_subcommand(1);
  add_compute(*command, exit_code);
  add_store(*command, exit_code);
  add_bench_net(*command, exit_code);
  add_bench_copy(*command, exit_code);
  add_bench_lanes(*command, exit_code);
  add_bench_scheduler(*command, exit_code);
}

} // namespace dualpath::apps

#include "apps/cmd_bench_scheduler.hpp"

#include "apps/command.hpp"
#include "apps/options.hpp"
#include "apps/scheduler_bench.hpp"
#include "core/units.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct scheduler_arguments {
  std::string cluster = "48P96D";
  scheduler_bench_options bench;
};

void print_messages(const scheduler_bench_result& result, bool between_processes) {
  double messages = 0, bytes = 0;
  for (const auto& each : result.messages) {
    if (each.between_processes != between_processes) continue;
    messages += each.per_request;
    bytes += each.per_request * static_cast<double>(each.bytes);
  }
  if (between_processes)
    std::printf("messages     %.1f and %s a request between processes:\n", messages,
                core::format_bytes(static_cast<std::uint64_t>(bytes)).c_str());
  else
    std::printf("messages     %.1f a request within the process of the scheduler:\n", messages);
  for (const auto& each : result.messages)
    if (each.between_processes == between_processes)
      std::printf("  %-18s %6.2f x %s\n", each.name.c_str(), each.per_request,
                  between_processes ? core::format_bytes(each.bytes).c_str() : "shared");
}

void print(const scheduler_bench_result& result, const scheduler_bench_options& options) {
  std::printf("engines      %u in %u groups\n", result.engines, options.prefill_nodes + options.decode_nodes);
  std::printf("requests     %llu of %u tokens, %.2f fetches each\n",
              static_cast<unsigned long long>(result.requests), options.context_tokens,
              static_cast<double>(result.fetches) / static_cast<double>(result.requests));
  std::printf("decisions    %.0f/s of a core, %.1f us each\n", result.decisions_per_s(),
              result.us_per_decision());
  std::printf("directory    %.1f us a request, on its own\n",
              1e6 * result.directory_cpu_s / static_cast<double>(result.requests));
  print_messages(result, true);
  print_messages(result, false);
}

int bench_scheduler(scheduler_arguments arguments) {
  auto cluster = parse_cluster(arguments.cluster);
  if (!cluster) return report_error(cluster.error());
  arguments.bench.prefill_nodes = cluster->prefill_nodes;
  arguments.bench.decode_nodes = cluster->decode_nodes;
  print(apps::bench_scheduler(arguments.bench), arguments.bench);
  return exit_ok;
}

} // namespace

void add_bench_scheduler(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand("scheduler", "Requests that one core can schedule");
  auto a = std::make_shared<scheduler_arguments>();
  auto count = [&](const char* flag, std::uint32_t& target, std::uint32_t least, std::uint32_t most,
                   const char* help) {
    command->add_option(flag, target, help)
        ->type_name("N")
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  command->add_option("--cluster", a->cluster, "Prefill and decode nodes")
      ->type_name("xPyD")
      ->capture_default_str();
  count("--gpus-per-node", a->bench.engines_per_node, 1, 64, "Engines of a node");
  count("--requests", a->bench.requests, 1, 10000000, "How many to measure over");
  count("--waiting", a->bench.waiting, 0, 1000000, "Requests that wait for a prefill engine all the time");
  count("--in-decode", a->bench.in_decode, 0, 1000000, "Requests in decode at a time");
  count("--context", a->bench.context_tokens, 1, 1U << 24, "Tokens of a request");
  count("--per-fetch", a->bench.requests_per_fetch, 1, 100000,
        "Requests that arrive between two fetches of every node");
  command->callback([a, &exit_code] { exit_code = bench_scheduler(*a); });
}

} // namespace dualpath::apps

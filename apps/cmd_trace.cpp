#include "apps/cmd_trace.hpp"

#include "apps/command.hpp"
#include "apps/trace_io.hpp"
#include "apps/workload_setup.hpp"
#include "core/workload/generator.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>

namespace dualpath::apps {

namespace {

struct trace_arguments {
  std::string input, output;
  std::uint32_t hash_block = 0, trajectories = 500, agents = 0, max_rounds = 0;
  std::uint64_t seed = 1;
  double scale = 1;
};

core::result<core::trace> load(const trace_arguments& arguments) {
  auto t = load_trace(arguments.input, {arguments.hash_block, arguments.trajectories, arguments.seed});
  if (!t) return t;
  return scale_trace(core::limit(std::move(*t), arguments.agents, arguments.max_rounds), arguments.scale);
}

void print_stats(const core::trace& t) {
  auto s = core::compute_stats(t);
  std::printf("trace         %s\n", t.name.c_str());
  std::printf("trajectories  %llu\n", static_cast<unsigned long long>(s.trajectories));
  std::printf("rounds        %llu\n", static_cast<unsigned long long>(s.rounds));
  std::printf("turns         %.1f   rounds a trajectory\n", s.mean_turns);
  std::printf("append        %.1f   new prompt tokens a round\n", s.mean_append);
  std::printf("generate      %.1f   tokens a round\n", s.mean_generate);
  std::printf("context       %.1f   prompt tokens a round\n", s.mean_context);
  std::printf("total         %.1f   tokens after the last round\n", s.mean_total);
  std::printf("longest       %llu prompt, %llu with what it generates\n",
              static_cast<unsigned long long>(s.max_prompt), static_cast<unsigned long long>(s.max_total));
  std::printf("all           %llu prompt, %llu generated tokens\n",
              static_cast<unsigned long long>(s.prompt_tokens),
              static_cast<unsigned long long>(s.generate_tokens));
  std::printf("hit rate      %.2f %% of prompt tokens at most\n", s.hit_upper_bound * 100);
}

core::result<void> write(const core::trace& t, const std::string& path) {
  if (path == "-") {
    write_trace(std::cout, t);
    return {};
  }
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  write_trace(out, t);
  out.close();
  if (!out) return core::error{core::errc::invalid_argument, "cannot write '" + path + "'"};
  return {};
}

int stats(const trace_arguments& arguments) {
  auto t = load(arguments);
  if (!t) return report_error(t.error());
  print_stats(*t);
  return exit_ok;
}

int convert(const trace_arguments& arguments) {
  auto t = load(arguments);
  if (!t) return report_error(t.error());
  auto written = write(*t, arguments.output);
  return written ? exit_ok : report_error(written.error());
}

void add_load_options(CLI::App& app, trace_arguments& arguments) {
  app.add_option("--agents", arguments.agents, "Only the first N trajectories; 0: all")->type_name("N");
  app.add_option("--max-rounds", arguments.max_rounds, "Only the first N rounds of each; 0: all")
      ->type_name("N");
  app.add_option("--scale-tokens", arguments.scale, "Factor on every length")->type_name("FACTOR");
  app.add_option("--hash-block", arguments.hash_block,
                 "Tokens per hash id of a Mooncake file; 0: found from its lengths")
      ->type_name("N");
}

} // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("trace", "Describe, convert and generate traces");
  command->require_subcommand(1);
  auto arguments = std::make_shared<trace_arguments>();

  auto* stats_command =
      command->add_subcommand("stats", "Sizes, means and the best possible hit rate of a trace");
  stats_command->add_option("trace", arguments->input, "A file, or synthetic:32K, :48K, :64K")->required();
  add_load_options(*stats_command, *arguments);
  stats_command->callback([arguments, &exit_code] { exit_code = stats(*arguments); });

  auto* convert_command = command->add_subcommand("convert", "Any trace to the native format");
  convert_command->add_option("trace", arguments->input, "A file, or synthetic:32K, :48K, :64K")->required();
  convert_command->add_option("output", arguments->output, "File to write; - for standard output")
      ->required();
  add_load_options(*convert_command, *arguments);
  convert_command->callback([arguments, &exit_code] { exit_code = convert(*arguments); });

  auto* generate = command->add_subcommand("generate", "A synthetic agent trace with the published means");
  generate->add_option("profile", arguments->input, "32K, 48K or 64K: the longest context")->required();
  generate->add_option("output", arguments->output, "File to write; - for standard output")->required();
  generate->add_option("--trajectories", arguments->trajectories, "How many")
      ->type_name("N")
      ->check(CLI::Range(1U, 1000000U))
      ->capture_default_str();
  generate->add_option("--seed", arguments->seed, "Same seed, same trace")
      ->type_name("SEED")
      ->capture_default_str();
  generate->callback([arguments, &exit_code] {
    arguments->input = "synthetic:" + arguments->input;
    exit_code = convert(*arguments);
  });
}

} // namespace dualpath::apps

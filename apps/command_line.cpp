#include "apps/command.hpp"

#include "apps/cmd_bench.hpp"
#include "apps/cmd_compare.hpp"
#include "apps/cmd_doctor.hpp"
#include "apps/cmd_model.hpp"
#include "apps/cmd_node.hpp"
#include "apps/cmd_plan.hpp"
#include "apps/cmd_qos.hpp"
#include "apps/cmd_run.hpp"
#include "apps/cmd_trace.hpp"
#include "apps/config_file.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace dualpath::apps {

namespace {

constexpr const char* exit_codes = R"(Exit codes:
    0  done; compare: every policy generated the same tokens
    1  tried and failed: a device, a check, digests that differ
    2  not tried: bad usage or input
  130  interrupted by SIGINT, 143 by SIGTERM: the rounds under way were finished
       and reported; after a second signal, nothing was)";

constexpr const char* general_examples = R"(Start with:
  dualpath doctor
  dualpath plan --cluster 2P4D --model DeepSeek-V3.2
  dualpath trace stats traces/swe_agent.jsonl
  dualpath compare --cluster 1P1D --trace traces/swe_agent.jsonl --agents 4 --scale-tokens 0.25 --tool-scale 0
  dualpath SUBCOMMAND --help

)";

constexpr const char* run_examples = R"(
Examples:
  A model on the CPU, 4 agents of a recorded trace at a quarter of their lengths:
    dualpath run --cluster 1P1D --trace traces/swe_agent.jsonl --agents 4 --scale-tokens 0.25
  The same with an engine that crashes, and the tokens written out:
    dualpath run --trace traces/swe_agent.jsonl --agents 4 --scale-tokens 0.25 \
        --inject crash:prefill:20 --tokens tokens.jsonl

)";

constexpr const char* compare_examples = R"(
Examples:
  Storage-bound, with KV of a large model that verifies itself:
    dualpath compare --cluster 1P2D --trace synthetic:64K --agents 16 --max-rounds 10 --scale-tokens 0.1 \
        --compute pattern:2TFLOPS --pattern-shape 16x4096 --snic-bandwidth 200MB/s --report report.json
  Options from a file, one of them overridden:
    dualpath compare --config cluster.toml --cluster 2P1D

)";

void set_footers(CLI::App& app) {
  app.footer(general_examples + std::string{exit_codes});
  app.get_subcommand("run")->footer(run_examples + std::string{exit_codes});
  app.get_subcommand("compare")->footer(compare_examples + std::string{exit_codes});
}

/// The subcommand that was being parsed when something was not understood.
const CLI::App* innermost(const CLI::App* app) {
  for (auto chosen = app->get_subcommands(); !chosen.empty(); chosen = app->get_subcommands())
    app = chosen.front();
  return app;
}

/// What was not understood, with the nearest name that would have been; "" where everything was.
std::string unknown_argument(const CLI::App& app) {
  auto left = app.remaining(true);
  if (left.empty()) return "";
  auto dash = std::find_if(left.begin(), left.end(), [](const auto& text) { return text.starts_with("-"); });
  auto name = dash != left.end() ? *dash : left.front();
  if (auto equals = name.find('='); equals != std::string::npos) name.resize(equals);
  const auto* command = innermost(&app);
  std::vector<std::string> known;
  if (name.starts_with("-"))
    for (const auto* option : command->get_options()) known.push_back("--" + option->get_single_name());
  else
    for (const auto* sub : command->get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
  auto nearest = nearest_name(name, known);
  return (name.starts_with("-") ? "unknown option '" : "unexpected '") + name + "'"
         + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
}

/// One sentence to standard error, and exit_usage; help goes to standard output.
int report_parse_error(const CLI::App& app, const CLI::ParseError& failure) {
  if (failure.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
    return app.exit(failure, std::cout, std::cerr);
  auto text = unknown_argument(app);
  if (text.empty()) text = failure.what();
  std::cerr << "dualpath: " << text << "\nRun with --help for more information." << std::endl;
  return exit_usage;
}

} // namespace

int run_command_line(int argc, const char* const* argv) {
  CLI::App app{
      "DualPath: prefill-decode inference for agents that reads stored KV-cache through the storage NICs of "
      "all nodes.",
      "dualpath"};
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  int exit_code = exit_ok;
  add_run_command(app, exit_code);
  add_compare_command(app, exit_code);
  add_node_command(app, exit_code);
  add_drain_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_trace_command(app, exit_code);
  add_model_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_qos_command(app, exit_code);
  add_doctor_command(app, exit_code);
  set_footers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failure) {
    return report_parse_error(app, failure);
  }
  return exit_code;
}

} // namespace dualpath::apps

#include "apps/command.hpp"
#include "apps/plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <sstream>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

struct outcome {
  int exit_code;
  std::string output, errors;
};

/// Runs the program inside the test, its streams caught.
outcome dualpath_run(std::vector<const char*> arguments) {
  std::ostringstream output, errors;
  auto* out = std::cout.rdbuf(output.rdbuf());
  auto* err = std::cerr.rdbuf(errors.rdbuf());
  arguments.insert(arguments.begin(), "dualpath");
  auto exit_code = run_command_line(static_cast<int>(arguments.size()), arguments.data());
  std::cout.rdbuf(out);
  std::cerr.rdbuf(err);
  return {exit_code, output.str(), errors.str()};
}

} // namespace

TEST_CASE("help goes to standard output and tells the exit codes") {
  for (auto arguments : {std::vector<const char*>{"--help"}, {"run", "--help"}, {"compare", "--help"}}) {
    auto result = dualpath_run(arguments);
    CHECK(result.exit_code == exit_ok);
    CHECK(result.errors.empty());
    CHECK(result.output.find("Exit codes:") != std::string::npos);
  }
}

TEST_CASE("bad usage is one sentence and exit code 2") {
  auto wrong = [](std::vector<const char*> arguments, const std::string& text) {
    auto result = dualpath_run(std::move(arguments));
    CHECK(result.exit_code == exit_usage);
    CHECK(result.output.empty());
    CHECK(result.errors == "dualpath: " + text + "\nRun with --help for more information.\n");
  };
  wrong({"run", "--polcy", "basic"}, "unknown option '--polcy'; did you mean '--policy'?");
  wrong({"compare", "--policy", "basic"}, "unknown option '--policy'; did you mean '--policies'?");
  wrong({"trase"}, "unexpected 'trase'; did you mean 'trace'?");
  wrong({"run", "--seed"}, "--seed: 1 required SEED missing");
  wrong({}, "A subcommand is required");
}

TEST_CASE("bad input is one sentence and exit code 2") {
  auto wrong = [](std::vector<const char*> arguments, const std::string& text) {
    auto result = dualpath_run(std::move(arguments));
    CHECK(result.exit_code == exit_usage);
    CHECK(result.output.empty());
    CHECK(result.errors.find("dualpath: " + text) == 0);
    CHECK(std::count(result.errors.begin(), result.errors.end(), '\n') == 1);
  };
  wrong({"run", "--trace", "synthetic:32K", "--cluster", "0P1D"}, "--cluster: '0P1D' has no prefill node");
  wrong({"run", "--trace", "synthetic:32K", "--snic-bandwidth", "-5"},
        "--snic-bandwidth: \"-5\" is not a rate");
  wrong({"compare", "--trace", "synthetic:32K", "--policies", "basic,best"},
        "--policies: 'best' is not a policy");
  wrong({"run"}, "no trace is given");
  wrong({"run", "--config", "/no/such.toml"}, "cannot read configuration file");
  wrong({"trace", "stats", "/no/such.jsonl"}, "cannot open trace");
  wrong({"trace", "generate", "16K", "-"}, "there is no synthetic trace '16K'");
  wrong({"trace", "convert", "synthetic:32K", "/no/such/file"}, "cannot write");
  wrong({"trace", "stats", "synthetic:32K", "--scale-tokens", "0"},
        "the factor on the lengths of a trace must be above 0");
  wrong({"trace", "stats", "synthetic:32K", "--scale-tokens", "1000"},
        "scaled by 1000.0, the longest sequence");
  wrong({"plan", "--cluster", "2P0D"}, "--cluster: '2P0D' has no decode node");
  wrong({"plan", "--gpus-per-node", "0"}, "The number of GPUs per node");
  wrong({"plan", "--model", "deepseek"}, "--model: 'deepseek' is neither a folder nor a known model");
  wrong({"plan", "--append", "0"}, "--append: '0' is not a number of tokens");
  wrong({"plan", "--hit-rate", "1.5"}, "--hit-rate must be above 0");
  wrong({"model", "create", "--preset", "huge", "/tmp/x"}, "--preset: 'huge' is not a preset");
}

TEST_CASE("a generated trace converts and repeats") {
  auto first = dualpath_run({"trace", "generate", "32K", "-", "--trajectories", "2", "--seed", "5"});
  auto second = dualpath_run({"trace", "generate", "32K", "-", "--trajectories", "2", "--seed", "5"});
  CHECK(first.exit_code == exit_ok);
  CHECK(first.output == second.output);
  CHECK(std::count(first.output.begin(), first.output.end(), '\n') == 2);
  CHECK(first.output.find(R"({"session":"32K-0000")") == 0);
}

TEST_CASE("a plan tells bounds, ratios and a verdict for every model") {
  auto result = dualpath_run({"plan", "--cluster", "2P4D"});
  CHECK(result.exit_code == exit_ok);
  for (const char* text : {"PE CNIC reads", "DE DRAM", "P/D from 0.143", "to 3.5",
                           "DeepSeek-V3.2: Dual paths pay", "DeepSeek-V3: Dual paths do not pay"})
    CHECK(result.output.find(text) != std::string::npos);
  CHECK(result.output.find("EXCEEDED") == std::string::npos);
  auto outside = dualpath_run({"plan", "--cluster", "8P1D", "--model", "qwen2.5-32b"});
  CHECK(outside.output.find("EXCEEDED") != std::string::npos);
  CHECK(outside.output.find("DeepSeek") == std::string::npos);
}

TEST_CASE("token counts may be written in K") {
  CHECK(*parse_tokens("429") == 429);
  CHECK(*parse_tokens("32K") == 32768);
  CHECK(*parse_tokens("0.5k") == 512);
  for (const char* text : {"", "K", "0", "-3", "1M", "3 K", "1e12", "nan"}) CHECK_FALSE(parse_tokens(text));
}

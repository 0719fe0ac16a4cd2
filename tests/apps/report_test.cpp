#include "apps/progress.hpp"
#include "apps/report.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

core::run_summary make_run(const std::string& policy, double jct_s, const std::string& digest = "d1") {
  core::run_summary run;
  run.policy = policy;
  run.cluster = "1P2D";
  run.jct_s = jct_s;
  run.requests = run.rounds_planned = 12;
  run.digest = digest;
  run.hit_rate = 0.95;
  run.ttft_ms = {10, 20, 30, 15};
  run.nodes = {{0, core::engine_role::prefill, 100, 10, 1, 2, 3},
               {1, core::engine_role::decode, 50, 20, 4, 5, 6}};
  run.flights = {1000, 950, {{core::node_id{1}, 900}}};
  run.pauses_of = {{core::node_id{2}, {3, std::chrono::milliseconds{4500}}}};
  run.path_prefill = 7;
  run.path_decode = 5;
  run.hit_blocks_prefill = 70;
  run.hit_blocks_decode = 50;
  return run;
}

std::string slurp(const std::string& path) {
  std::ifstream in{path};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("a comparison that failed reports what was done before, and why it is not all") {
  std::vector runs{make_run("basic", 4)};
  auto report = nlohmann::json::parse(report_json(runs, {"dualpath", "node 2 is missing"}));
  CHECK(report["runs"].size() == 1);
  CHECK(report["incomplete"] == nlohmann::json{{"policy", "dualpath"}, {"why", "node 2 is missing"}});
}

TEST_CASE("the report has the documented shape") {
  std::vector runs{make_run("basic", 4), make_run("dualpath", 2)};
  auto report = nlohmann::json::parse(report_json(runs));
  REQUIRE(report.size() == 1);
  REQUIRE(report["runs"].size() == 2);
  const auto& run = report["runs"][1];
  CHECK(run["policy"] == "dualpath");
  CHECK(run["cluster"] == "1P2D");
  CHECK(run["jct_s"] == 2.0);
  CHECK(run["requests"] == 12);
  CHECK(run["digest"] == "d1");
  CHECK(run["hit_rate"] == 0.95);
  CHECK(run["ttft_ms"] == nlohmann::json{{"p50", 10.0}, {"p90", 20.0}, {"p99", 30.0}});
  CHECK(run["ttst_ms"].size() == 3);
  CHECK(run["tpot_ms"].size() == 3);
  CHECK(run["storage_bytes_by_node"] == nlohmann::json{100, 50});
  CHECK(run["nodes"][1]["role"] == "decode");
  CHECK(run["requests_in_flight"]["bound_bytes"] == 1000);
  CHECK(run["requests_in_flight"]["client_peak_bytes"] == 950);
  REQUIRE(run["requests_in_flight"]["peaks"].size() == 1);
  CHECK(run["requests_in_flight"]["peaks"][0] == nlohmann::json{{"node", 1}, {"bytes", 900}});
  CHECK(run["pauses"] == nlohmann::json::array({{{"node", 2}, {"count", 3}, {"total_s", 4.5}}}));
  CHECK(run["paths"] == nlohmann::json{{"prefill", 7}, {"decode", 5}, {"split", 0}, {"recompute", 0}});
  CHECK(run["hit_blocks"] == nlohmann::json{{"prefill", 70}, {"decode", 50}});
}

TEST_CASE("a run is reported with these fields and no others") {
  auto run = nlohmann::json::parse(report_json(std::vector{make_run("basic", 4)}))["runs"][0];
  std::vector<std::string> keys;
  for (const auto& item : run.items()) keys.push_back(item.key());
  CHECK(keys
        == std::vector<std::string>{"adopted_tokens",
                                    "alpha_tokens",
                                    "beta_tokens",
                                    "blocks",
                                    "calibration",
                                    "cluster",
                                    "compute",
                                    "digest",
                                    "engine_restarts",
                                    "generated_tokens",
                                    "hit_blocks",
                                    "hit_rate",
                                    "hit_tokens",
                                    "interrupted",
                                    "jct_s",
                                    "lost_tokens",
                                    "model",
                                    "nodes",
                                    "paths",
                                    "pauses",
                                    "policy",
                                    "prompt_tokens",
                                    "read_errors",
                                    "requests",
                                    "requests_in_flight",
                                    "rerouted",
                                    "rounds_planned",
                                    "storage_bytes_by_node",
                                    "storage_bytes_per_s",
                                    "storage_nic_max_over_avg",
                                    "storage_overdue",
                                    "store_full",
                                    "tpot_ms",
                                    "trace",
                                    "ttft_ms",
                                    "ttst_ms",
                                    "warnings"});
}

TEST_CASE("every field of the report is documented") {
  auto guide = slurp(DUALPATH_SOURCE_DIR "/docs/guides/report-schema.md");
  REQUIRE_FALSE(guide.empty());
  std::vector runs{make_run("basic", 1)};
  auto report = nlohmann::json::parse(report_json(runs));
  auto check = [&](const nlohmann::json& object) {
    for (const auto& item : object.items()) {
      INFO(item.key());
      CHECK(guide.find("`" + item.key() + "`") != std::string::npos);
    }
  };
  check(report["runs"][0]);
  check(report["runs"][0]["nodes"][0]);
  check(report["runs"][0]["pauses"][0]);
}

TEST_CASE("the comparison tells the speed-up over basic and that digests match") {
  std::vector runs{make_run("recompute", 8), make_run("basic", 4), make_run("dualpath", 2)};
  CHECK(digests_agree(runs));
  auto text = format_comparison(runs);
  std::vector<std::string> lines;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  CHECK(lines.front().find("recompute") < lines.front().find("basic"));
  CHECK(lines.front().find("basic") < lines.front().find("dualpath"));
  auto speed_up =
      std::find_if(lines.begin(), lines.end(), [](auto& line) { return line.starts_with("speed-up"); });
  REQUIRE(speed_up != lines.end());
  CHECK(speed_up->find("0.50x") < speed_up->find("1.00x"));
  CHECK(speed_up->find("1.00x") < speed_up->find("2.00x"));
  CHECK(speed_up->size() == lines.front().size());
  CHECK(lines.back() == "Digests match: all 3 policies generated the same tokens.");
}

TEST_CASE("the comparison names who differs, and warns") {
  std::vector runs{make_run("basic", 4, "d1"), make_run("dualpath", 2, "d2"), make_run("oracle", 1, "d1")};
  runs[1].warnings = {"2 blocks lost"};
  runs[2].warnings = {"the block store was full"};
  CHECK_FALSE(digests_agree(runs));
  auto text = format_comparison(runs);
  CHECK(text.find("DIGESTS DIFFER: basic = oracle (d1); dualpath (d2).") != std::string::npos);
  CHECK(text.find("Warning: dualpath: 2 blocks lost") != std::string::npos);
  CHECK(text.find("Warning: oracle: the block store was full") != std::string::npos);
}

TEST_CASE("without basic there is no speed-up to tell") {
  std::vector runs{make_run("dualpath", 2)};
  auto text = format_comparison(runs);
  CHECK(text.find("speed-up") == std::string::npos);
  CHECK(text.find("Digests") == std::string::npos);
}

TEST_CASE("the token log has one line a round") {
  core::run_record record;
  core::round_record round;
  round.session = "a\"b";
  round.round = 2;
  round.prompt = {1, 2};
  round.generated = {3};
  round.hit_tokens = 64;
  round.hits = {1, 0};
  record.rounds = {round, round};
  auto path =
      (std::filesystem::temp_directory_path() / ("dualpath_tokens_" + std::to_string(getpid()))).string();
  REQUIRE(write_tokens(path, record));
  auto text = slurp(path);
  std::filesystem::remove(path);
  auto line = std::string{
      R"({"session":"a\"b","round":2,"prompt":[1,2],"generated":[3],"hit_tokens":64,"path":"decode"})"
      "\n"};
  CHECK(text == line + line);
}

TEST_CASE("files that cannot be written are errors") {
  std::vector runs{make_run("basic", 1)};
  CHECK(write_report("/no/such/report.json", runs).error().text.find("cannot write '/no/such/report.json'")
        == 0);
  CHECK_FALSE(write_tokens("/no/such/tokens.jsonl", {}));
  if (std::filesystem::exists("/dev/full")) CHECK_FALSE(write_report("/dev/full", runs));
}

TEST_CASE("a progress line shows count and rest, and fits its width") {
  CHECK(progress_line("basic", 5, 10, "2 running", 30, 200)
        == "basic [############............] 5/10  0:30 left 0:30  2 running");
  CHECK(progress_line("basic", 10, 10, "", 61, 200) == "basic [########################] 10/10  1:01");
  CHECK(progress_line("basic", 0, 0, "", 0, 200) == "basic [........................] 0/0  0:00");
  CHECK(progress_line("basic", 5, 10, "x", 30, 20).size() == 20);
}

TEST_CASE("a run that was interrupted says so and its digest is compared with none") {
  std::vector runs{make_run("basic", 4), make_run("dualpath", 2, "d2")};
  runs[1].requests = 5;
  auto report = nlohmann::json::parse(report_json(runs));
  CHECK(report["runs"][0]["interrupted"] == false);
  CHECK(report["runs"][1]["interrupted"] == true);
  CHECK(report["runs"][1]["rounds_planned"] == 12);
  auto text = format_comparison(runs);
  CHECK(text.find("Digests cannot be compared") != std::string::npos);
  CHECK(text.find("DIFFER") == std::string::npos);
}

// Requests on their way to the processes of nodes: bounded, whatever a node does.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <fstream>

using namespace dualpath::testing;

namespace {

constexpr std::uint64_t bound = 2000;

/// What the largest request of a run takes on its way, by the prompts in its token log.
std::uint64_t largest_request(const std::string& token_log) {
  std::uint64_t most = 0;
  std::ifstream in{token_log};
  for (std::string line; std::getline(in, line);) {
    auto round = nlohmann::json::parse(line);
    auto tokens = round.at("prompt").size() + round.at("generated").size();
    auto all_else = 256 + round.at("session").get<std::string>().size();
    most = std::max<std::uint64_t>(most, all_else + 4 * tokens + 16 * (tokens / 64));
  }
  return most;
}

} // namespace

TEST_CASE(
    "a node that stands still never has more than the bound and one request in flight, at no token's cost") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "2P1D", "--control-in-flight", std::to_string(bound),
                                    "--tokens", place.path("tokens.jsonl")}
                                  + long_workload()};
  cluster.join({"--role", "prefill"});
  cluster.join({"--role", "decode"});
  cluster.await_requests(20);
  cluster.node(0).signal(SIGSTOP);
  auto status = cluster.finish();
  cluster.node(0).signal(SIGCONT);
  INFO(cluster.head().output());
  REQUIRE(status == 0);
  auto report = read_report(cluster.report_path());
  CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
  CHECK(report.requests == 148);
  auto largest = largest_request(place.path("tokens.jsonl"));
  REQUIRE(report.peaks.size() == 2); // both prefill nodes, the frozen one among them
  for (auto [node, bytes] : report.peaks) {
    INFO("node " << node << ", the largest request being " << largest);
    CHECK(bytes > 0);
    CHECK(bytes <= bound + largest);
  }
  CHECK(report.client_peak > 0);
  CHECK(report.client_peak <= bound + largest);
}

// Clusters that start without some, or any, of their nodes; and which node takes which place.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <fstream>
#include <unistd.h>

using namespace dualpath::testing;

namespace {

std::string this_machine() {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  return name;
}

void check_tokens(hand_cluster& cluster) {
  auto status = cluster.finish();
  INFO(cluster.head().output());
  REQUIRE(status == 0);
  CHECK(read_report(cluster.report_path()).digests.at(0) == digest_of_one_process(short_workload()));
}

} // namespace

TEST_CASE(
    "a cluster may start without any node: it says what is missing, and serves when both roles are there") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "0P0D"} + short_workload()};
  auto& head = cluster.head();
  REQUIRE(head.await_line("waiting_for_nodes missing=\"prefill and decode\"") >= 0);
  cluster.join();
  REQUIRE(head.await_line("node_joined node=1 role=prefill") >= 0);
  REQUIRE(head.await_line("waiting_for_nodes missing=decode") >= 0);
  cluster.join();
  auto complete = head.await_line("node_joined node=2 role=decode");
  REQUIRE(complete >= 0);
  check_tokens(cluster);
  CHECK(head.await_line("request_dispatched request=1 ") > complete);
  for (std::size_t i = 0; i < 2; ++i) CHECK(cluster.node(i).wait() == 0);
}

TEST_CASE("a node that is lost while an empty cluster waits is one to wait for, not the end of the run") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "0P0D"} + short_workload()};
  auto& head = cluster.head();
  REQUIRE(head.await_line("waiting_for_nodes missing=\"prefill and decode\"") >= 0);
  cluster.join({"--role", "prefill"});
  auto alone = head.await_line("waiting_for_nodes missing=decode");
  REQUIRE(alone >= 0);
  cluster.node(0).signal(SIGKILL);
  REQUIRE(head.await_line("waiting_for_nodes missing=\"prefill and decode\"", alone) > alone);
  cluster.join({"--role", "decode"});
  cluster.join({"--role", "prefill"});
  check_tokens(cluster);
}

TEST_CASE("a head without engines waits for all nodes of its cluster, under every policy") {
  workplace place;
  hand_cluster cluster{
      place, words{"compare", "--cluster", "1P1D", "--head-only", "--policies", "recompute,dualpath"}
                 + short_workload()};
  cluster.join();
  cluster.join();
  auto status = cluster.finish();
  INFO(cluster.head().output());
  REQUIRE(status == 0);
  CHECK(cluster.head().output().find("engine_up node=0") == std::string::npos);
  auto report = read_report(cluster.report_path());
  REQUIRE(report.digests.size() == 2);
  for (auto& digest : report.digests) CHECK(digest == digest_of_one_process(short_workload()));
}

TEST_CASE("a node that names no role has that of its machine in the table of nodes") {
  workplace place;
  std::ofstream{place.path("run.toml")} << "[nodes]\n\"" << this_machine() << "\" = \"decode\"\n";
  hand_cluster cluster{place, words{"run", "--cluster", "2P1D", "--config", place.path("run.toml")}
                                  + short_workload()};
  auto& head = cluster.head();
  // Without the table it would be the second prefill node, the first place that is free.
  cluster.join();
  REQUIRE(head.await_line("node_joined node=2 role=decode") >= 0);
  cluster.join({"--role", "prefill"});
  REQUIRE(head.await_line("node_joined node=1 role=prefill") >= 0);
  check_tokens(cluster);
}

TEST_CASE("a cluster whose nodes do not all join in time fails and names those that are missing") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "1P2D", "--join-timeout", "1s"} + short_workload()};
  CHECK(cluster.finish() == 1);
  INFO(cluster.head().output());
  CHECK(
      cluster.head().output().find("nodes 1 (decode), 2 (decode) did not join within 1.00 s (--join-timeout)")
      != std::string::npos);
}

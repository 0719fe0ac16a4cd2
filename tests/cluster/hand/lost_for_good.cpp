// The last node of a role, lost for good: what the head says, whom it waits for, and how it ends.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <csignal>

using namespace dualpath::testing;

namespace {

/// A run with one prefill and one decode node, each a process that joined by hand; a head without engines.
struct pair_of_nodes {
  workplace place;
  hand_cluster cluster;

  explicit pair_of_nodes(const words& options = {})
      : cluster{place, words{"run", "--cluster", "1P1D", "--head-only"} + options + long_workload()} {
    cluster.join({"--role", "prefill"});
    cluster.join({"--role", "decode"});
    cluster.await_requests(20);
  }
  /// Kills the only node of a role; what the head says then.
  std::string lose(const std::string& role) {
    cluster.node(role == "prefill" ? 0 : 1).signal(SIGKILL);
    auto said = cluster.head().await_line("waiting_for_nodes missing=" + role);
    INFO(cluster.head().output());
    REQUIRE(said >= 0);
    return cluster.head().line(said);
  }
};

} // namespace

TEST_CASE(
    "when the last node of a role is killed the head says what is missing and how to help, and a newcomer "
    "serves all that waited") {
  auto role = GENERATE(std::string{"prefill"}, std::string{"decode"});
  INFO("the role " << role);
  pair_of_nodes running;
  auto said = running.lose(role);
  INFO(said);
  CHECK(said.find("(" + role + ", on ") != std::string::npos);
  CHECK(said.find("requests_waiting=") != std::string::npos);
  CHECK(said.find("requests_waiting=0 ") == std::string::npos);
  CHECK(said.find("dualpath node --join " + running.cluster.address() + " --secret-file FILE --role " + role)
        != std::string::npos);
  running.cluster.join(); // without a role: the one that is missing
  auto status = running.cluster.finish();
  INFO(running.cluster.head().output());
  REQUIRE(status == 0);
  auto report = read_report(running.cluster.report_path());
  CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
  CHECK(report.requests == 148); // none lost, none repeated
}

TEST_CASE(
    "when nobody replaces the last node of a role in time, the run ends with an error that names both") {
  auto role = GENERATE(std::string{"prefill"}, std::string{"decode"});
  pair_of_nodes running{{"--wait-for-role", "1s"}};
  running.lose(role);
  CHECK(running.cluster.finish() == 1);
  auto said = running.cluster.head().output();
  INFO(said);
  CHECK(said.find("dualpath: no " + role
                  + " node is left, and none has joined within 1.00 s (--wait-for-role): node "
                  + (role == "prefill" ? "1" : "2") + " (" + role + ", on ")
        != std::string::npos);
  CHECK(said.find(" requests are unfinished; ") != std::string::npos);
  CHECK(said.find(" of 148 rounds are done") != std::string::npos);
  CHECK(running.cluster.node(role == "prefill" ? 1 : 0).wait() == 0);
}

// The last node of a role, lost for good: what the head says, whom it waits for, and how it ends.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <csignal>

using namespace dualpath::testing;

namespace {

/// Only the loss that a test causes may happen: on a busy machine a process may be silent for seconds.
const words patient = {"--peer-timeout", "2min"};

/// A run with one prefill and one decode node, each a process that joined by hand; a head without engines.
struct pair_of_nodes {
  workplace place;
  hand_cluster cluster;

  explicit pair_of_nodes(const words& options = {})
      : cluster{place,
                words{"run", "--cluster", "1P1D", "--head-only"} + patient + options + long_workload()} {
    cluster.join(patient + words{"--role", "prefill"});
    cluster.join(patient + words{"--role", "decode"});
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

void check_replaced(const std::string& role) {
  pair_of_nodes running;
  auto said = running.lose(role);
  INFO(said);
  CHECK(said.find("(" + role + ", on ") != std::string::npos);
  CHECK(said.find("requests_waiting=") != std::string::npos);
  CHECK(said.find("requests_waiting=0 ") == std::string::npos);
  CHECK(said.find("dualpath node --join " + running.cluster.address() + " --secret-file FILE --role " + role)
        != std::string::npos);
  auto& newcomer = running.cluster.join(patient); // without a role: the one that is missing
  auto status = running.cluster.finish();
  INFO(running.cluster.head().output());
  REQUIRE(status == 0);
  CHECK(newcomer.wait() == 0);
  auto report = read_report(running.cluster.report_path());
  CHECK(report.warnings.size() == 1); // of the loss that the test has caused, and no other
  CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
  CHECK(report.requests == 148); // none lost, none repeated
}

} // namespace

TEST_CASE("when the last prefill node is killed the head says what is missing and how to help, and a "
          "newcomer serves all that waited") {
  check_replaced("prefill");
}

TEST_CASE("when the last decode node is killed the head says what is missing and how to help, and a newcomer "
          "serves all that waited") {
  check_replaced("decode");
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

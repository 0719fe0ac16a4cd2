// Processes that are paused themselves, as a machine that stalls pauses all of its own at once: whoever was
// paused does not blame its peers for what it did not hear.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <thread>

using namespace dualpath::testing;

namespace {

constexpr auto timeout = "5s";
constexpr double timeout_s = 5;
constexpr auto pause_length = std::chrono::seconds{7};

void pause(const std::vector<child_process*>& processes, std::chrono::seconds length = pause_length) {
  for (auto* each : processes) each->signal(SIGSTOP);
  std::this_thread::sleep_for(length); // it is the pause
  for (auto* each : processes) each->signal(SIGCONT);
}

struct three_nodes {
  workplace place;
  hand_cluster cluster;

  explicit three_nodes(const words& of_nodes)
      : cluster{place, words{"run", "--cluster", "1P2D", "--peer-timeout", timeout} + long_workload()} {
    for (int i = 0; i < 2; ++i) cluster.join(of_nodes);
    cluster.await_requests(20);
  }

  /// That nobody was lost, and which of them noticed the pause.
  void check(const std::vector<unsigned>& paused) {
    auto status = cluster.finish();
    auto said = cluster.head().output();
    INFO(said);
    REQUIRE(status == 0);
    CHECK(said.find("node_lost") == std::string::npos);
    auto report = read_report(cluster.report_path());
    CHECK(report.warnings.empty());
    CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
    CHECK(report.requests == 148);
    for (auto node : paused) {
      INFO("node " << node);
      REQUIRE(report.paused_s.contains(node));
      CHECK(report.paused_s.at(node) > timeout_s);
    }
    for (std::size_t i = 0; i < 2; ++i) CHECK(cluster.node(i).wait() == 0);
  }
};

} // namespace

TEST_CASE("all processes paused for longer than --peer-timeout lose nobody, and say how long it was") {
  three_nodes running{{"--peer-timeout", timeout}};
  auto& cluster = running.cluster;
  pause({&cluster.head(), &cluster.node(0), &cluster.node(1)});
  CHECK(cluster.head().await_line("process_paused paused_s=") >= 0);
  running.check({0, 1, 2});
}

TEST_CASE("a head that is paused for longer than its own --peer-timeout loses none of its nodes, which have "
          "more patience") {
  three_nodes running{{"--peer-timeout", "2min"}};
  pause({&running.cluster.head()});
  running.check({0});
}

TEST_CASE("a node that is paused for longer than its own --peer-timeout blames neither the head nor its "
          "peers, which have more patience") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "1P2D", "--peer-timeout", "2min"} + long_workload()};
  cluster.join({"--peer-timeout", timeout});
  REQUIRE(cluster.head().await_line("node_joined node=1") >= 0);
  cluster.join({"--peer-timeout", "2min"});
  cluster.await_requests(20);
  pause({&cluster.node(0)});
  auto status = cluster.finish();
  INFO(cluster.head().output() << cluster.node(0).output());
  REQUIRE(status == 0);
  CHECK(cluster.node(0).output().find("process_paused paused_s=") != std::string::npos);
  auto report = read_report(cluster.report_path());
  CHECK(report.warnings.empty());
  CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
  CHECK(cluster.node(0).wait() + cluster.node(1).wait() == 0);
}

TEST_CASE(
    "a head that is paused for longer than --wait-for-role does not give up the role that it waits for") {
  const words patient = {"--peer-timeout", "2min"};
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "1P1D", "--wait-for-role", "10s"} + patient
                                  + long_workload()};
  cluster.join(patient);
  cluster.await_requests(20);
  cluster.node(0).signal(SIGKILL);
  REQUIRE(cluster.head().await_line("waiting_for_nodes missing=decode") >= 0);
  cluster.head().signal(SIGSTOP);
  auto& newcomer = cluster.join(patient); // it asks while nobody answers
  pause({&cluster.head()}, std::chrono::seconds{12});
  auto status = cluster.finish();
  INFO(cluster.head().output() << newcomer.output());
  REQUIRE(status == 0);
  CHECK(newcomer.wait() == 0);
  auto report = read_report(cluster.report_path());
  CHECK(report.warnings.size() == 1); // of the node that was killed
  CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
}

// Nodes that join, leave, die and stand still, each a process started by hand.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <fstream>

using namespace dualpath::testing;

namespace {

/// A run of three nodes, of which one may be wronged in the middle.
struct running_cluster {
  workplace place;
  hand_cluster cluster;

  /// Processes get the numbers of nodes in their order.
  running_cluster() : cluster{place, words{"run", "--cluster", "1P2D"} + long_workload()} {
    cluster.join();
    REQUIRE(cluster.head().await_line("node_joined node=1") >= 0);
    cluster.join();
    cluster.await_requests(20);
  }

  void check_tokens() {
    auto status = cluster.finish();
    INFO(cluster.head().output());
    REQUIRE(status == 0);
    auto report = read_report(cluster.report_path());
    CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
    CHECK(report.requests == 148); // none lost, none repeated
  }
};

} // namespace

TEST_CASE("processes joined by hand generate the tokens of one process, under every policy") {
  workplace place;
  hand_cluster cluster{place, words{"compare", "--cluster", "2P2D", "--policies",
                                    "recompute,basic,round_robin,dualpath,oracle"}
                                  + short_workload()};
  for (int i = 0; i < 3; ++i) cluster.join();
  auto status = cluster.finish();
  INFO(cluster.head().output());
  REQUIRE(status == 0);
  auto report = read_report(cluster.report_path());
  REQUIRE(report.digests.size() == 5);
  for (auto& digest : report.digests) CHECK(digest == digest_of_one_process(short_workload()));
  for (std::size_t i = 0; i < 3; ++i) CHECK(cluster.node(i).wait() == 0);
}

TEST_CASE("a node that is killed in the middle of a run costs no token") {
  running_cluster running;
  running.cluster.node(1).signal(SIGKILL);
  running.check_tokens();
  CHECK_FALSE(read_report(running.cluster.report_path()).warnings.empty());
  CHECK(running.cluster.node(0).wait() == 0);
}

TEST_CASE("what decode nodes had read for requests of a prefill node that is killed is not read again") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "2P1D"} + long_workload("5MB/s")};
  cluster.join();
  REQUIRE(cluster.head().await_line("node_joined node=1") >= 0);
  auto& decode = cluster.join();
  auto& head = cluster.head();
  // Killed while the decode node reads for one of its requests, or has just done so.
  for (long read = -1, placed = -1; head.line(placed).find(" prefill=1 ") == std::string::npos;) {
    read = decode.await_line("landing_reads ", read + 1);
    REQUIRE(read >= 0);
    auto what = decode.line(read);
    auto request = what.substr(what.find("request="));
    placed = head.await_line("request_dispatched " + request.substr(0, request.find(' ') + 1));
    REQUIRE(placed >= 0);
  }
  cluster.node(0).signal(SIGKILL);
  auto status = cluster.finish();
  INFO(head.output() << decode.output());
  REQUIRE(status == 0);
  auto report = read_report(cluster.report_path());
  CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
  CHECK(report.adopted_tokens > 0);
}

TEST_CASE("a comparison whose node is killed ends with a clear error at the next policy, and does not hang") {
  workplace place;
  hand_cluster cluster{place, words{"compare", "--cluster", "1P2D", "--policies", "dualpath,basic"}
                                  + long_workload()};
  cluster.join();
  cluster.join();
  cluster.await_requests(20);
  cluster.node(1).signal(SIGKILL);
  CHECK(cluster.finish() == 1);
  auto said = cluster.head().output();
  INFO(said);
  CHECK(said.find("is missing since its process was lost") != std::string::npos);
  CHECK(cluster.node(0).wait() == 0);
  // What the first policy did is worth as much as before.
  CHECK(said.find("Incomplete: basic failed") != std::string::npos);
  CHECK(said.find("job completion time") != std::string::npos);
  auto report = read_report(cluster.report_path());
  CHECK(report.incomplete == "basic");
  REQUIRE(report.digests.size() == 1);
  CHECK(report.digests[0] == digest_of_one_process(long_workload()));
}

TEST_CASE("a node that stands still is taken for dead, and cut off when it goes on") {
  running_cluster running;
  running.cluster.node(1).signal(SIGSTOP);
  running.check_tokens();
  running.cluster.node(1).signal(SIGCONT);
  CHECK(running.cluster.node(1).wait() == 1);
}

TEST_CASE("a drained node finishes what it decodes and leaves, and the run goes on without it") {
  running_cluster running;
  auto [status, said] = running.cluster.drain(1);
  INFO(said);
  CHECK(status == 0);
  CHECK(running.cluster.node(0).wait() + running.cluster.node(1).wait() == 0);
  running.check_tokens();
  CHECK(read_report(running.cluster.report_path()).warnings.empty());
}

TEST_CASE("a node that gets SIGTERM drains itself") {
  running_cluster running;
  running.cluster.node(0).signal(SIGTERM);
  CHECK(running.cluster.node(0).wait() == 0);
  running.check_tokens();
  CHECK(read_report(running.cluster.report_path()).warnings.empty());
}

TEST_CASE(
    "the last decode node, the head and strangers cannot be drained, and the administrator is told why") {
  running_cluster running;
  CHECK(running.cluster.drain(2).first == 0);
  auto [last, why_last] = running.cluster.drain(1);
  CHECK(last == 2);
  CHECK(why_last.find("only decode node") != std::string::npos);
  auto [head, why_head] = running.cluster.drain(0);
  CHECK(head == 2);
  CHECK(why_head.find("cannot leave") != std::string::npos);
  running.check_tokens();
}

TEST_CASE("a node that joins in the middle of a run is used") {
  running_cluster running;
  auto& head = running.cluster.head();
  running.cluster.join({"--role", "decode"});
  auto joined = head.await_line("node=3 role=decode");
  REQUIRE(joined >= 0);
  auto used = head.await_line("decode=3 ", joined);
  INFO(head.output());
  CHECK(used > joined);
  running.check_tokens();
}

TEST_CASE("after engines have crashed in every process, nothing is held for requests in any") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "2P2D", "--inject", "crash:prefill:9@0", "--inject",
                                    "crash:prefill:9@1", "--inject", "crash:decode:5@2", "--inject",
                                    "crash:decode:5@3"}
                                  + short_workload()};
  for (int i = 0; i < 3; ++i) cluster.join();
  auto status = cluster.finish();
  INFO(cluster.head().output());
  REQUIRE(status == 0);
  auto report = read_report(cluster.report_path());
  CHECK(report.digests.at(0) == digest_of_one_process(short_workload()));
  for (auto& warning : report.warnings) {
    INFO(warning);
    CHECK(warning.find("still held") == std::string::npos);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(cluster.node(i).wait() == 0);
    INFO(cluster.node(i).output());
    CHECK(cluster.node(i).output().find("injected crash") != std::string::npos);
    CHECK(cluster.node(i).output().find("buffer_slots=0 hbm_blocks=0") != std::string::npos);
  }
}

TEST_CASE("a node with another secret is refused, and the cluster does not notice") {
  running_cluster running;
  auto other = running.place.path("other");
  {
    workplace elsewhere;
    std::ofstream{other} << "another secret, which is long enough too\n";
    std::filesystem::permissions(other, std::filesystem::perms::owner_read);
    auto& stranger = running.cluster.join({"--secret-file", other});
    CHECK(stranger.wait() == 1);
    CHECK(stranger.output().find("another cluster secret") != std::string::npos);
  }
  running.check_tokens();
}

TEST_CASE("an injected fault happens in the process of the node that it names, and costs no token") {
  workplace place;
  hand_cluster cluster{place,
                       words{"run", "--cluster", "1P2D", "--inject", "crash:decode:5@2"} + short_workload()};
  cluster.join();
  cluster.join();
  auto status = cluster.finish();
  auto said = cluster.head().output();
  INFO(said);
  REQUIRE(status == 0);
  CHECK(said.find("engine_down node=2") != std::string::npos);
  CHECK(said.find("engine_down node=1") == std::string::npos);
  auto report = read_report(cluster.report_path());
  CHECK(report.warnings.empty()); // or else the fault would be said not to have happened
  CHECK(report.digests.at(0) == digest_of_one_process(short_workload()));
}

TEST_CASE("a fault planned for a step that a node never reaches is said not to have happened") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "1P1D", "--inject", "crash:decode:1000000@1"}
                                  + short_workload()};
  cluster.join();
  CHECK(cluster.finish() == 0);
  auto report = read_report(cluster.report_path());
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0]
        == "1 planned faults never happened: the run was too short (crash:decode:1000000@1)");
}

TEST_CASE("planned faults of nodes that never served, were lost, or have plans of their own are told apart") {
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "1P3D", "--inject", "crash:decode:1000000@1",
                                    "--inject", "crash:decode:5@2", "--inject", "crash:decode:7@3",
                                    "--inject", "crash:decode:5@9"}
                                  + long_workload()};
  auto& head = cluster.head();
  cluster.join({"--role", "decode"});
  REQUIRE(head.await_line("node_joined node=1 ") >= 0);
  cluster.join({"--role", "decode"});
  REQUIRE(head.await_line("node_joined node=2 ") >= 0);
  cluster.join({"--role", "decode", "--inject", "crash:decode:6"});
  cluster.await_requests(20);
  cluster.node(0).signal(SIGKILL);
  auto status = cluster.finish();
  INFO(head.output());
  REQUIRE(status == 0);
  auto report = read_report(cluster.report_path());
  std::vector<std::string> of_faults;
  for (auto& warning : report.warnings)
    if (warning.find("planned fault") != std::string::npos) of_faults.push_back(warning);
  CHECK(of_faults
        == words{"1 planned faults never happened: no such node served (crash:decode:5@9)",
                 "1 planned faults never happened: the node has a plan of its own (crash:decode:7@3)",
                 "1 planned faults may not have happened: their node ended without a word "
                 "(crash:decode:1000000@1)"});
  CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
}

TEST_CASE("a fault that does not say in which of many processes is refused") {
  workplace place;
  hand_cluster cluster{place,
                       words{"run", "--cluster", "0P0D", "--inject", "crash:decode:5"} + short_workload()};
  CHECK(cluster.finish() == 2);
  CHECK(cluster.head().output().find("write crash:decode:5@NODE") != std::string::npos);
}

TEST_CASE("a node that does not fit is refused in a sentence on both sides") {
  struct misfit {
    words arguments;
    std::string why;
  };
  auto each = GENERATE(misfit{{"--block-tokens", "32"}, "block size of 32, the cluster 64"},
                       misfit{{"--model", "small"}, "the model 'small'"},
                       misfit{{"--kv-dtype", "bf16"}, "--kv-dtype"});
  workplace place;
  hand_cluster cluster{place, words{"run", "--cluster", "1P1D"} + short_workload()};
  auto& node = cluster.join(each.arguments);
  CHECK(node.wait() == 1);
  CHECK(cluster.finish() == 1);
  INFO(node.output());
  CHECK(node.output().find(each.why) != std::string::npos);
  INFO(cluster.head().output());
  CHECK(cluster.head().output().find(each.why) != std::string::npos);
}

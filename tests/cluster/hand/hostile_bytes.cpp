// Strangers on every port of a cluster that serves.
#include "../../support/strangers.hpp"
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

using namespace dualpath::testing;

namespace {

/// As long as the proof of a secret that a connection to UCX starts with.
std::string forged_proof(std::mt19937_64& random) {
  std::string proof(48, '\0');
  for (auto& byte : proof) byte = static_cast<char>(random());
  return proof;
}

/// Garbage, garbage that starts like something a listener might go along with, or what UCX would.
std::string hostile_bytes(std::mt19937_64& random) {
  if (random() % 2 == 0) {
    auto opening = random() % 4 == 0 ? forged_proof(random) : "";
    return opening + ucx_wire::gone_wrong(random);
  }
  std::string garbage(random() % 4000, '\0');
  for (auto& byte : garbage) byte = static_cast<char>(random());
  static const std::string starts[] = {"", std::string("\x16\x03\x01\x02\x00\x01", 6), "GET / HTTP/1.1\r\n",
                                       std::string(64, '\0'), std::string("\x00\x00\x00\x40\x00\x00", 6)};
  return starts[random() % std::size(starts)] + garbage;
}

bool throw_at(const sockaddr_in& listener, const std::string& bytes) {
  stranger outside{listener};
  if (outside.connected()) outside.say(bytes);
  return outside.connected();
}

unsigned seconds_of_fuzzing() {
  auto* given = std::getenv("DUALPATH_FUZZ_SECONDS");
  return given == nullptr ? 5 : static_cast<unsigned>(std::atoi(given));
}

} // namespace

TEST_CASE("hostile bytes on any port close their own connection and nothing else") {
  auto* given = std::getenv("DUALPATH_SEED");
  auto seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  INFO("DUALPATH_SEED=" << seed);
  std::mt19937_64 random{seed};
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds{seconds_of_fuzzing()};
  std::uint64_t thrown = 0, listeners = 0;
  do {
    workplace place;
    hand_cluster cluster{place,
                         words{"run", "--cluster", "1P2D", "--transports", "tcp"} + long_workload("5MB/s")};
    cluster.join();
    cluster.join();
    cluster.await_requests(5);
    std::vector<pid_t> processes{cluster.head().pid(), cluster.node(0).pid(), cluster.node(1).pid()};
    while (std::chrono::steady_clock::now() < until && listeners_of(processes[0]).size() > 0) {
      for (auto process : processes) {
        auto at = listeners_of(process);
        listeners = std::max<std::uint64_t>(listeners, at.size());
        for (auto& each : at) thrown += throw_at(each, hostile_bytes(random));
      }
    }
    auto status = cluster.finish();
    INFO(cluster.head().output());
    REQUIRE(status == 0);
    auto report = read_report(cluster.report_path());
    CHECK(report.warnings.empty());
    CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
    for (std::size_t i = 0; i < 2; ++i) CHECK(cluster.node(i).wait() == 0);
  } while (std::chrono::steady_clock::now() < until);
  std::cout << thrown << " hostile connections, up to " << listeners << " ports a process" << std::endl;
  CHECK(thrown > 100);
  CHECK(listeners >= 4); // the control plane's and three lanes'
}

TEST_CASE("a run in one process, too, is closed to whoever speaks UCX's wire format") {
  child_process run{program(words{"run", "--cluster", "1P1D", "--transports", "tcp", "--log-level", "debug"}
                            + long_workload("20MB/s"))};
  REQUIRE(run.await_line("request_dispatched request=5 ") >= 0);
  auto at = listeners_of(run.pid());
  CHECK(at.size() >= 6); // three lanes of two engines
  for (auto& each : at) {
    stranger outside{each};
    REQUIRE(outside.connected());
    outside.say(ucx_wire::magic() + ucx_wire::request(0) + ucx_wire::wild_put());
    CHECK(outside.outcome() == "closed");
  }
  auto status = run.wait();
  INFO(run.output());
  CHECK(status == 0);
}

// One process a node, started by mpirun.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <unistd.h>

using namespace dualpath::testing;

namespace {

words mpirun(int processes, const words& options = {"--enable-recovery"}) {
  auto root = ::geteuid() == 0 ? words{"--allow-run-as-root"} : words{};
  return words{DUALPATH_MPIRUN} + root + words{"--oversubscribe", "--bind-to", "none"} + options
         + words{"-n", std::to_string(processes)};
}

} // namespace

TEST_CASE("four processes under mpirun generate the tokens of one process, under every policy") {
  workplace place;
  child_process job{
      mpirun(4)
      + program(words{"compare", "--cluster", "2P2D", "--policies",
                      "recompute,basic,round_robin,dualpath,oracle", "--report", place.path("report.json")}
                + short_workload())};
  auto status = job.wait();
  INFO(job.output());
  REQUIRE(status == 0);
  auto report = read_report(place.path("report.json"));
  REQUIRE(report.digests.size() == 5);
  for (auto& digest : report.digests) CHECK(digest == digest_of_one_process(short_workload()));
}

TEST_CASE("a rank that is killed costs no token under mpirun --enable-recovery") {
  workplace place;
  child_process job{mpirun(4)
                    + program(words{"run", "--cluster", "2P2D", "--log-level", "debug", "--report",
                                    place.path("report.json")}
                              + long_workload())};
  REQUIRE(job.await_line("request_dispatched request=20 ") >= 0);
  auto victim = process_with("OMPI_COMM_WORLD_RANK=3", job.pid());
  REQUIRE(victim > 0);
  REQUIRE(::kill(victim, SIGKILL) == 0);
  auto status = job.wait();
  INFO(job.output());
  CHECK(status == 0);
  CHECK(read_report(place.path("report.json")).digests.at(0) == digest_of_one_process(long_workload()));
}

TEST_CASE("the loss of the last decode node ends a run under mpirun at once, since nobody can join it") {
  child_process job{mpirun(2)
                    + program(words{"run", "--cluster", "1P1D", "--log-level", "debug"} + long_workload())};
  REQUIRE(job.await_line("request_dispatched request=20 ") >= 0);
  auto victim = process_with("OMPI_COMM_WORLD_RANK=1", job.pid());
  REQUIRE(victim > 0);
  REQUIRE(::kill(victim, SIGKILL) == 0);
  job.wait(); // says nothing: with --enable-recovery mpirun has 0 whatever the ranks had
  INFO(job.output());
  CHECK(job.output().find("dualpath: no decode node is left, and none can join what a launcher has started: "
                          "node 1 (decode, on ")
        != std::string::npos);
}

TEST_CASE("mpirun with another number of processes than --cluster has nodes is refused") {
  child_process job{mpirun(3, {}) + program(words{"run", "--cluster", "2P2D"} + short_workload())};
  CHECK(job.wait() == 2);
  CHECK(job.output().find("3 processes, --cluster 2P2D has 4 nodes") != std::string::npos);
}

TEST_CASE("a rank that ends before it has joined fails the run with a sentence that names it") {
  child_process job{mpirun(2)
                    + program(words{"run", "--cluster", "2P1D", "--join-timeout", "2s"} + short_workload())
                    + words{":", "-n", "1", "true"}};
  job.wait(); // says nothing: with --enable-recovery mpirun has 0 whatever the ranks had
  INFO(job.output());
  CHECK(job.output().find("rank 2 (decode) did not join within 2.00 s (--join-timeout)")
        != std::string::npos);
}

TEST_CASE("the program warns when mpirun would end the job with the death of one rank") {
  child_process job{mpirun(2, {}) + program(words{"run", "--cluster", "1P1D"} + short_workload())};
  CHECK(job.wait() == 0);
  CHECK(job.output().find("--enable-recovery") != std::string::npos);
}

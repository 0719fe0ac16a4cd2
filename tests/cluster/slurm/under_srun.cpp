// One process a node, started by srun in a Slurm cluster of two virtual nodes.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstdlib>

using namespace dualpath::testing;

namespace {

const std::string scripts = DUALPATH_SOURCE_DIR "/scripts/";

/// Up for as long as this lives. Not usable: the packages are missing.
class slurm {
public:
  slurm() {
    child_process up{{scripts + "slurm-up", place_.path("slurm")}};
    auto status = up.wait();
    INFO(up.output());
    REQUIRE((status == 0 || status == 77));
    usable_ = status == 0;
    if (usable_) ::setenv("SLURM_CONF", place_.path("slurm/slurm.conf").c_str(), 1);
  }
  ~slurm() { child_process{{scripts + "slurm-down", place_.path("slurm")}}.wait(); }
  bool usable() const { return usable_; }
  const workplace& place() const { return place_; }

private:
  workplace place_;
  bool usable_ = false;
};

words srun(int processes) { return {"srun", "--mpi=pmix", "-N", "2", "-n", std::to_string(processes)}; }

} // namespace

TEST_CASE("processes under srun on two nodes generate the tokens of one process, and outlive a dead one") {
  slurm cluster;
  if (!cluster.usable()) {
    WARN("skipped: Slurm is not installed");
    return;
  }
  auto report_path = cluster.place().path("report.json");
  {
    child_process job{srun(3)
                      + program(words{"compare", "--cluster", "1P2D", "--policies", "basic,dualpath,oracle",
                                      "--report", report_path}
                                + short_workload())};
    auto status = job.wait();
    INFO(job.output());
    REQUIRE(status == 0);
    auto report = read_report(report_path);
    REQUIRE(report.digests.size() == 3);
    for (auto& digest : report.digests) CHECK(digest == digest_of_one_process(short_workload()));
  }
  child_process job{
      srun(4)
      + program(words{"run", "--cluster", "2P2D", "--log-level", "debug", "--report", report_path}
                + long_workload())};
  REQUIRE(job.await_line("request_dispatched request=20 ") >= 0);
  auto victim = process_with("SLURM_PROCID=3");
  REQUIRE(victim > 0);
  REQUIRE(::kill(victim, SIGKILL) == 0);
  job.wait(); // 137: srun tells of the dead rank, the report of the run
  INFO(job.output());
  CHECK(read_report(report_path).digests.at(0) == digest_of_one_process(long_workload()));
}

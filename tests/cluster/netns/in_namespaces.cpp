// Nodes in network namespaces that stand for machines, joined by links of a limited rate.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <unistd.h>

using namespace dualpath::testing;

namespace {

const std::string script = DUALPATH_SOURCE_DIR "/scripts/netns";

/// Up for as long as this lives. Not usable: no permission, or the packages are missing.
class namespaces {
public:
  namespaces(int count, const std::string& rate) {
    ::setenv("NETNS", ("dptest" + std::to_string(::getpid())).c_str(), 1);
    child_process up{{script, "up", std::to_string(count), rate}};
    auto status = up.wait();
    INFO(up.output());
    REQUIRE((status == 0 || status == 77));
    usable_ = status == 0;
  }
  ~namespaces() {
    if (usable_) child_process{{script, "down"}}.wait();
  }
  bool usable() const { return usable_; }

private:
  bool usable_ = false;
};

words on(int node) { return {script, "exec", std::to_string(node)}; }

} // namespace

TEST_CASE("four nodes over links of 400 Mbit/s, joined by hand, generate the tokens of one process") {
  namespaces machines{4, "400mbit"};
  if (!machines.usable()) {
    WARN("skipped: no network namespaces here");
    return;
  }
  workplace place;
  auto report = place.path("report.json");
  child_process head{
      on(0)
      + program(words{"compare", "--cluster", "2P2D", "--transports", "tcp", "--policies", "basic,dualpath",
                      "--listen", "10.88.0.1:7070", "--secret-file", place.secret(), "--report", report}
                + short_workload())};
  REQUIRE(head.await_line("waiting at ") >= 0);
  std::vector<std::unique_ptr<child_process>> nodes;
  for (int i = 1; i < 4; ++i)
    nodes.push_back(std::make_unique<child_process>(
        on(i) + program({"node", "--join", "10.88.0.1:7070", "--secret-file", place.secret()})));
  auto status = head.wait();
  INFO(head.output());
  for (auto& node : nodes) INFO(node->output());
  REQUIRE(status == 0);
  for (auto& digest : read_report(report).digests) CHECK(digest == digest_of_one_process(short_workload()));
  for (auto& node : nodes) CHECK(node->wait() == 0);
}

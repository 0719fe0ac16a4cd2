#include "cluster_run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

namespace dualpath::testing {

namespace fs = std::filesystem;

workplace::workplace() {
  auto pattern = (fs::temp_directory_path() / "dualpath-cluster-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  folder_ = pattern;
  // Slurm's daemons run as others as well.
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec
                               | fs::perms::others_read | fs::perms::others_exec);
  std::ofstream{secret()} << "a secret for tests, and long enough\n";
  fs::permissions(secret(), fs::perms::owner_read | fs::perms::owner_write);
}

workplace::~workplace() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

words operator+(words a, const words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

namespace {

const words trace = {"--trace", DUALPATH_SOURCE_DIR "/traces/swe_agent.jsonl", "--tool-scale", "0",
                     "--no-progress"};

} // namespace

words long_workload(const std::string& snic_bandwidth) {
  return trace + words{"--agents",       "12",  "--max-rounds",     "14",
                       "--scale-tokens", "0.3", "--snic-bandwidth", snic_bandwidth};
}

words short_workload() {
  return trace + words{"--agents", "6", "--max-rounds", "6", "--scale-tokens", "0.1"};
}

words program(const words& arguments) { return words{DUALPATH_PROGRAM} + arguments; }

run_report read_report(const std::string& path) {
  std::ifstream in{path};
  auto json = nlohmann::json::parse(in, nullptr, false);
  INFO("the report " << path);
  REQUIRE(json.is_object());
  run_report report;
  for (auto& run : json.at("runs")) {
    report.digests.push_back(run.at("digest"));
    report.requests += run.at("requests").get<std::uint64_t>();
    report.adopted_tokens += run.at("adopted_tokens").get<std::uint64_t>();
    for (auto& warning : run.at("warnings")) report.warnings.push_back(warning);
    for (auto& pauses : run.at("pauses"))
      report.paused_s[pauses.at("node").get<unsigned>()] += pauses.at("total_s").get<double>();
    report.client_peak = std::max(report.client_peak,
                                  run.at("requests_in_flight").at("client_peak_bytes").get<std::uint64_t>());
    for (auto& peak : run.at("requests_in_flight").at("peaks")) {
      auto& most = report.peaks[peak.at("node").get<unsigned>()];
      most = std::max(most, peak.at("bytes").get<std::uint64_t>());
    }
  }
  if (json.contains("incomplete")) report.incomplete = json.at("incomplete").at("policy");
  return report;
}

std::string digest_of_one_process(const words& arguments) {
  static std::map<words, std::string> known;
  auto& digest = known[arguments];
  if (!digest.empty()) return digest;
  workplace place;
  child_process alone{program(words{"run"} + arguments + words{"--report", place.path("one.json")})};
  auto status = alone.wait();
  INFO(alone.output());
  REQUIRE(status == 0);
  digest = read_report(place.path("one.json")).digests.at(0);
  return digest;
}

hand_cluster::hand_cluster(const workplace& place, const words& arguments) : place_{place} {
  head_ = std::make_unique<child_process>(
      program(arguments
              + words{"--listen", "127.0.0.1:0", "--secret-file", place.secret(), "--report", report_path(),
                      "--log-level", "debug"}));
  auto waiting = head_->await_line("waiting at ");
  INFO(head_->output());
  REQUIRE(waiting >= 0);
  auto text = head_->line(waiting);
  auto start = text.find("waiting at ") + std::string{"waiting at "}.size();
  address_ = text.substr(start, text.find(' ', start) - start);
}

child_process& hand_cluster::join(const words& arguments) {
  auto secret = std::find(arguments.begin(), arguments.end(), "--secret-file") == arguments.end()
                    ? words{"--secret-file", place_.secret()}
                    : words{};
  nodes_.push_back(std::make_unique<child_process>(
      program(words{"node", "--join", address_, "--log-level", "debug"} + secret + arguments)));
  return *nodes_.back();
}

std::pair<int, std::string> hand_cluster::drain(unsigned number) {
  child_process admin{
      program({"drain", std::to_string(number), "--join", address_, "--secret-file", place_.secret()})};
  auto status = admin.wait();
  return {status, admin.output()};
}

void hand_cluster::await_requests(unsigned count) {
  auto seen = head_->await_line("request_dispatched request=" + std::to_string(count) + " ");
  INFO(head_->output());
  REQUIRE(seen >= 0);
}

} // namespace dualpath::testing

// Clusters of several processes of the program, as a user starts them, and what their reports say.
#pragma once

#include "child_process.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dualpath::testing {

/// A folder that is gone at the end, with a cluster secret in it.
class workplace {
public:
  workplace();
  ~workplace();
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string secret() const { return path("secret"); }

private:
  std::filesystem::path folder_;
};

using words = std::vector<std::string>;
words operator+(words a, const words& b);

/// A workload long enough for something to happen in the middle of it: some seconds, by the bandwidth. Its
/// tokens do not depend on that.
words long_workload(const std::string& snic_bandwidth = "20MB/s");
/// One that takes a moment.
words short_workload();

/// dualpath with these arguments.
words program(const words& arguments);

struct run_report {
  std::vector<std::string> digests; ///< one a policy
  std::vector<std::string> warnings;
  std::uint64_t requests = 0, adopted_tokens = 0;
  std::map<unsigned, std::uint64_t> peaks; ///< bytes of requests in flight to a node, over all runs
  std::uint64_t client_peak = 0;           ///< likewise, from the client to the scheduler
  std::map<unsigned, double> paused_s;     ///< of nodes whose process noticed pauses of its own
  std::string incomplete;                  ///< the policy that failed
};
/// Of a file that --report has written.
run_report read_report(const std::string& path);

/// The digest of these arguments in one process; measured once for each.
std::string digest_of_one_process(const words& arguments);

/// A head that waits for nodes, and nodes that join it by hand.
class hand_cluster {
public:
  /// `arguments` of run or compare, the subcommand first.
  hand_cluster(const workplace& place, const words& arguments);

  child_process& head() { return *head_; }
  /// Starts a node; the n-th from 0.
  child_process& join(const words& arguments = {});
  child_process& node(std::size_t number) { return *nodes_[number]; }
  std::string address() const { return address_; }
  /// Has node `number` drained by an administrator; the exit status and what was said.
  std::pair<int, std::string> drain(unsigned number);

  /// Blocks until the run has come that far: its `count`-th request is dispatched.
  void await_requests(unsigned count);
  /// The head's exit status; the report is at report_path().
  int finish() { return head_->wait(); }
  std::string report_path() const { return place_.path("report.json"); }

private:
  const workplace& place_;
  std::string address_;
  std::unique_ptr<child_process> head_;
  std::vector<std::unique_ptr<child_process>> nodes_;
};

} // namespace dualpath::testing

// The fabric's side of the bench: two connected fabrics, each able to keep a number of transfers to the other
// in flight.
#pragma once

#include "net/bench.hpp"
#include "net/fabric.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

namespace dualpath::net {

class fabric_pair {
public:
  /// Errors: those of the fabric.
  static core::result<std::unique_ptr<fabric_pair>> open(const bench_options& options, std::uint64_t bytes);
  ~fabric_pair();
  fabric_pair(const fabric_pair&) = delete;
  fabric_pair& operator=(const fabric_pair&) = delete;

  /// Seconds for `transfers` transfers (each way) as the row describes them, all visible at their target.
  core::result<double> run(const bench_row& row, std::uint64_t transfers, std::uint32_t in_flight);

private:
  /// One end and what it has under way. Completions submit the next transfer, as the raw loop does.
  struct end {
    std::unique_ptr<net::fabric> fabric;
    memory_region memory;
    peer_id peer;
    remote_region_id remote;
    std::atomic<std::uint64_t> submitted{0}, finished{0};
  };

  fabric_pair() = default;
  core::result<void> connect(const bench_options& options, std::uint64_t bytes);
  core::result<peer_id> meet(end& from, const end& to);
  void submit(end& from);
  void finish(end& from, core::result<void> outcome);
  core::instant soon() const { return clock_.now() + std::chrono::seconds{60}; }

  core::steady_clock clock_;
  std::array<end, 2> ends_;
  std::uint64_t region_bytes_ = 0;

  // Of the run under way.
  bench_row row_;
  std::uint64_t transfers_ = 0;
  std::atomic<std::uint32_t> running_{0}; ///< ends that have not finished
  std::mutex mutex_;
  std::optional<core::error> failure_;
};

} // namespace dualpath::net

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
#include <vector>

namespace dualpath::net {

class fabric_pair {
public:
  /// Errors: those of the fabric.
  static core::result<std::unique_ptr<fabric_pair>> open(const bench_options& options, std::uint64_t bytes);
  ~fabric_pair();
  fabric_pair(const fabric_pair&) = delete;
  fabric_pair& operator=(const fabric_pair&) = delete;

  /// At least `transfers` transfers (each way) as the row describes them, all visible at their target.
  core::result<bench_run> run(const bench_row& row, std::uint64_t transfers, std::uint32_t in_flight);

private:
  struct end {
    std::unique_ptr<net::fabric> fabric;
    memory_region memory;
    peer_id peer;
    remote_region_id remote;
    std::atomic<std::uint32_t> short_of_share{0}; ///< chains
  };
  /// One transfer after the other, each submitted by the completion of the one before, as the raw loop does:
  /// every so many-th of an end's. So they share no counters, which would be measured as well.
  struct alignas(64) chain {
    fabric_pair* pair;
    std::size_t side;
    std::uint64_t next, step, submitted = 0;
    bool has_share = false;
  };

  fabric_pair() = default;
  core::result<void> connect(const bench_options& options, std::uint64_t bytes);
  core::result<peer_id> meet(end& from, const end& to);
  void submit(chain& of);
  void finish(chain& of, core::result<void> outcome);
  core::instant soon() const { return clock_.now() + std::chrono::seconds{60}; }

  core::steady_clock clock_;
  std::array<end, 2> ends_;
  std::uint64_t region_bytes_ = 0;

  // Of the run under way.
  bench_row row_;
  std::uint64_t transfers_ = 0;
  core::instant deadline_{0};
  std::vector<chain> chains_;
  std::atomic<std::uint32_t> ends_short_{0}; ///< that have not moved their share
  std::atomic<std::uint32_t> running_{0};    ///< chains
  std::mutex mutex_;
  std::optional<core::error> failure_;
};

} // namespace dualpath::net

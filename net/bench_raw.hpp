// The yardstick of the bench: two UCX workers, one spinning thread each, and nothing else. The threads spin
// during a run only, so that the fabric can be measured in between.
#pragma once

#include "net/bench.hpp"
#include "net/ucx_context.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <thread>

namespace dualpath::net {

class raw_pair {
public:
  static core::result<std::unique_ptr<raw_pair>> open(const std::string& transports, std::uint64_t bytes);
  ~raw_pair();
  raw_pair(const raw_pair&) = delete;
  raw_pair& operator=(const raw_pair&) = delete;

  /// At least `transfers` transfers (each way) as the row describes them, all visible at their target.
  core::result<bench_run> run(const bench_row& row, std::uint64_t transfers, std::uint32_t in_flight);

private:
  struct end {
    std::unique_ptr<ucx_context> context;
    std::unique_ptr<ucx_worker> worker;
    ucp_mem_h memory = nullptr;
    std::byte* base = nullptr;
    ucp_ep_h endpoint = nullptr;
    ucp_rkey_h key = nullptr;
    std::thread thread;
    ucs_status_t status = UCS_OK;
    std::uint64_t submitted = 0;
  };
  struct work {
    bench_row row;
    std::uint64_t transfers = 0;
    std::uint32_t in_flight = 0;
  };

  raw_pair() = default;
  core::result<void> allocate(end& on, std::uint64_t bytes);
  core::result<void> connect(end& from, const end& to);
  void serve(std::size_t side);
  ucs_status_t drive(std::size_t side);
  void close(end& one);

  std::array<end, 2> ends_;
  std::uint64_t bytes_ = 0;
  work work_;                                ///< written between runs
  std::atomic<std::uint32_t> run_{0};        ///< number of the run under way
  std::atomic<std::uint32_t> ends_short_{0}; ///< that have not moved their share
  std::atomic<std::uint32_t> driving_{0};    ///< ends whose own transfers are not over
  std::atomic<std::uint32_t> spinning_{0};
  std::atomic<bool> stop_{false};
};

} // namespace dualpath::net

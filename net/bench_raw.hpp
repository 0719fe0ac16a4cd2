// The yardstick of the bench: two UCX workers, one spinning thread each, and nothing else.
#pragma once

#include "net/bench.hpp"
#include "net/ucx_context.hpp"

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

  /// Seconds for `transfers` transfers as the row describes them, all visible at their target.
  core::result<double> run(const bench_row& row, std::uint64_t transfers, std::uint32_t in_flight);

private:
  raw_pair() = default;
  core::result<void> connect(std::uint64_t bytes);

  std::unique_ptr<ucx_context> contexts_[2];
  std::unique_ptr<ucx_worker> workers_[2];
  ucp_mem_h memory_[2] = {nullptr, nullptr};
  std::byte* base_[2] = {nullptr, nullptr};
  std::uint64_t bytes_ = 0;
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  std::atomic<bool> stop_{false};
  std::thread target_;
};

} // namespace dualpath::net

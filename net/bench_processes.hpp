// How fast the fabric moves batches of blocks between two processes of this machine: what it is set beside
// other transfer engines with. The other process is a fork of this one.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>

namespace dualpath::net {

struct process_bench_options {
  std::string transports; ///< as UCX_TLS; empty: UCX chooses
  std::uint64_t block_bytes = 1ULL << 20;
  std::uint32_t blocks = 256; ///< of a batch, which is one transfer
  std::uint32_t rounds = 20;  ///< batches each way
};

struct process_bench_result {
  double put_gb_per_s = 0, get_gb_per_s = 0; ///< median batch, from its submission to its completion
};

/// Call it before this process has any thread. Both processes compare every byte that was moved. Errors:
/// those of the fabric; corrupt, where bytes differ.
core::result<process_bench_result> bench_processes(const process_bench_options& options);

} // namespace dualpath::net

// What the copies of an engine are made with on this machine, chosen as a run chooses it, and what submitting
// one costs its caller: beside the device's own copies and a plain memcpy, whose submission is the copy.
#pragma once

#include "apps/options.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <string>

namespace dualpath::apps {

struct copy_bench_options {
  copy_choice copies{};
  compute_choice compute{};
  std::uint64_t piece_bytes = 64 << 10;
  std::uint32_t pieces = 64; ///< of a copy
  std::uint32_t rounds = 100;
};

/// Means of a copy.
struct copy_cost {
  double submit_ns = 0; ///< until the call returns
  double cpu_us = 0;    ///< of all threads, the kernel's work for them included
  double gb_per_s = 0;  ///< one copy at a time
};

struct copy_bench_result {
  std::string choice;   ///< "verbs on mlx5_0" or "the device"
  std::string reason;   ///< why it is not verbs; "" where it is
  double doorbells = 0; ///< of a copy, mean; 0 without verbs
  copy_cost chosen;     ///< host to device and back, verified
  copy_cost device;     ///< the same by the device's own copies
  double memcpy_ns = 0; ///< a copy by memcpy within host memory
};

/// Blocks. Errors: invalid_argument (no pieces or bytes, no RDMA device of that name), io (a copy failed, or
/// its bytes are wrong), where verbs is asked for those of choose_copies().
core::result<copy_bench_result> bench_copies(const copy_bench_options& options);

} // namespace dualpath::apps

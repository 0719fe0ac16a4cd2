// What copies inside this machine are made with, and what submitting one costs its caller: an RDMA write
// looped back through the NIC where there is one that can, else memcpy, whose submission is the copy.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>

namespace dualpath::net {

struct copy_bench_options {
  std::string device{}; ///< "": the first with an active port
  std::uint64_t piece_bytes = 64 << 10;
  std::uint32_t pieces = 64; ///< of a copy
  std::uint32_t rounds = 100;
};

struct copy_bench_result {
  std::string choice;   ///< "verbs on mlx5_0" or "memcpy"
  std::string reason;   ///< why it is not verbs; "" where it is
  double submit_us = 0; ///< of a copy, mean
  double gb_per_s = 0;  ///< one copy at a time
  double doorbells = 0; ///< of a copy, mean; 0 without verbs
  double memcpy_us = 0; ///< of a copy by memcpy
};

/// Errors: invalid_argument (no pieces or bytes, no device of that name), io (a copy failed, or its bytes are
/// wrong).
core::result<copy_bench_result> bench_copies(const copy_bench_options& options);

} // namespace dualpath::net

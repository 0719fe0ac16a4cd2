// How fast is the fabric, and how much of what UCX can do does it give? Two fabrics of this process against a
// minimal loop over raw UCX on the same transports, size by size.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::net {

struct bench_options {
  std::string transports; ///< as UCX_TLS; empty: UCX chooses
  std::uint64_t bytes_per_case = 1ULL << 30;
  std::uint32_t in_flight = 8;         ///< transfers
  std::uint32_t transfers_max = 20000; ///< of small ones
};

struct bench_row {
  bool put = true;
  std::uint64_t piece_bytes = 0;
  std::uint32_t pieces = 1; ///< a transfer: `pieces` rows of `piece_bytes`, two pieces apart
  double fabric_gb_per_s = 0, raw_gb_per_s = 0;
  double fabric_us_per_transfer = 0, raw_us_per_transfer = 0;
  double fabric_cpu_s_per_gb = 0; ///< of the whole process: both ends
  double ratio() const { return raw_gb_per_s == 0 ? 0 : fabric_gb_per_s / raw_gb_per_s; }
};

/// Runs for some seconds. Errors: those of the fabric.
core::result<std::vector<bench_row>> measure_fabric(const bench_options& options);

} // namespace dualpath::net

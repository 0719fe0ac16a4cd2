// How fast a file store is in a given directory: writes blocks of its own, reads them back in random order,
// both with `in_flight` operations at a time, and removes them. The reads are verified like any others, so
// the figures are those an engine gets. To set beside `fio --ioengine=io_uring --direct=1` with the same
// block size and depth.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace dualpath::storage {

struct bench_options {
  std::filesystem::path directory{};
  std::uint64_t block_bytes = 4ull << 20;
  std::uint32_t blocks = 256;
  std::uint32_t reads_per_block = 2;
  unsigned in_flight = 16;
  bool direct_io = true;
  std::uint64_t seed = 1; ///< order of the reads, and the bytes
};

struct bench_result {
  double write_gb_per_s = 0; ///< 10^9 bytes of payload
  double read_gb_per_s = 0;
  double checksum_gb_per_s = 0;  ///< of one core
  double write_cpu_s_per_gb = 0; ///< all threads of the process, kernel work for it included
  double read_cpu_s_per_gb = 0;
  double scan_blocks_per_s = 0;
  std::string store; ///< what was measured, for people
};

/// Blocks the caller. Errors: those of the store, and of the first operation that fails.
core::result<bench_result> bench_store(const bench_options& options);

} // namespace dualpath::storage

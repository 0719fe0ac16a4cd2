// What many blocks cost, whatever their size: writes the smallest there are, then does what a start over them
// does: lists them all and builds the directory of their prefixes.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <filesystem>

namespace dualpath::storage {

struct scan_bench_options {
  std::filesystem::path directory{};
  std::uint64_t blocks = 100'000;
};

struct scan_bench_result {
  std::uint64_t blocks = 0;
  std::uint64_t file_bytes = 0; ///< of a block on disk
  double written_per_s = 0, scanned_per_s = 0;
  double scan_s = 0;                             ///< of all blocks
  double scan_cpu_s = 0;                         ///< likewise, all threads, the kernel's work included
  std::uint64_t peak_bytes = 0;                  ///< of memory of the whole process, at most
  double directory_bytes_per_block = 0;          ///< of memory
  double insert_us = 0, find_us = 0;             ///< of a block, in the directory
  std::uint64_t folders = 0, fullest_folder = 0; ///< those with blocks; files in one
};

/// Blocks the caller; the blocks are removed afterwards. Errors: those of the store; invalid_argument.
core::result<scan_bench_result> bench_scan(const scan_bench_options& options);

} // namespace dualpath::storage

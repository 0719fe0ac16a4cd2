// How fast a file store is in a given directory: writes blocks of its own, reads them back in random order,
// both with `in_flight` operations at the disk, and removes them. The reads are verified like any others, so
// the figures are those an engine gets: twice as many are asked for at a time, since one that is verified is
// not over, but the disk has done with it. Made of phases that can be repeated, so that another program may
// be measured in between.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace dualpath::storage {

struct bench_options {
  std::filesystem::path directory{};
  std::uint64_t block_bytes = 4ull << 20;
  std::uint32_t blocks = 256;
  unsigned in_flight = 16; ///< at the disk
  unsigned requests() const { return 2 * in_flight; }
  unsigned threads = 2; ///< of the store
  bool direct_io = true;
  std::uint64_t seed = 1; ///< order of the reads, and the bytes
};

/// What one phase took. Of all threads of the process, kernel work for it included.
struct bench_phase {
  double gb_per_s = 0; ///< 10^9 bytes of payload
  double cpu_s_per_gb = 0;
};

/// CPU seconds a GB of one core.
struct checksum_cost {
  double in_cache = 0;     ///< of bytes that were just copied: what a read through the page cache pays
  double from_memory = 0;  ///< of bytes that come from memory: what direct reads and writes pay
  double memory_alone = 0; ///< reading those bytes and nothing else: no checksum can cost less
};

/// Every call blocks. Errors: those of the store, and of the first operation that fails.
class store_bench {
public:
  virtual ~store_bench() = default;
  /// Errors: invalid_argument (options), those of open_file_store().
  static core::result<std::unique_ptr<store_bench>> open(const bench_options& options);

  /// Removes the blocks of a run before, and writes all.
  virtual core::result<bench_phase> write() = 0;
  /// Reads every block once, in an order that differs from call to call.
  virtual core::result<bench_phase> read() = 0;
  virtual core::result<void> remove() = 0;
  /// Blocks listed a second.
  virtual core::result<double> scan() = 0;
  /// Over all the buffers, or over a part that fits in the cache of any core.
  virtual checksum_cost checksum() const = 0;
  /// What is measured, for people.
  virtual std::string describe() const = 0;
  /// Whether the directory has direct I/O, if it was asked for.
  virtual bool direct() const = 0;
};

} // namespace dualpath::storage

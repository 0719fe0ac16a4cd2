// fio as a yardstick: runs one job of it as a child process and reads what it measured.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace dualpath::apps {

struct fio_job {
  std::filesystem::path folder{}; ///< for its files alone
  bool write = false;             ///< else reads in random order what was written before
  bool direct_io = true;          ///< else through the page cache, which is left as it is
  std::uint64_t block_bytes = 0;
  std::uint32_t blocks = 0;
  unsigned depth = 1;

  /// Whether its buffers are on huge pages: those of direct I/O, where enough are reserved. On small pages
  /// every block is split into many operations of the device, which makes the yardstick too short.
  bool on_huge_pages() const;
};

/// "fio-3.33"; "" where there is none.
std::string fio_version();

/// GB/s of one job through io_uring on one thread, a file a block. Files to be written are laid out before
/// the clock starts. Blocks. Errors: io; what fio has to say goes to stderr.
core::result<double> run_fio(const fio_job& job);

} // namespace dualpath::apps

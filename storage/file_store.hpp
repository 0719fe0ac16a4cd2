// Full Blocks as files in a directory of any POSIX mount: local disks, tmpfs, overlays, network file systems.
// A few threads, each with an io_uring, keep `queue_depth` operations at the disk, past the page cache
// (O_DIRECT, where the file system has it); the rest wait their turn, or are verified meanwhile. Several
// threads because verifying a block, and copying it where there is a page cache, are work of a core. Several
// processes may share a directory, and several models too.
//
// A block that is torn by a power failure is caught by its checksum and is a miss, so nothing is synced
// unless asked. Headers are trusted for nothing before they are verified; blocks of other models, layouts and
// versions of the format are left alone. Closing waits for what the kernel has begun and completes the rest
// with `closed`. A store must not be closed, nor scan() be called, from a completion.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <filesystem>
#include <memory>

namespace dualpath::storage {

enum class durability {
  process, ///< a block outlives the process; a power failure may tear it, which makes it a miss
  power,   ///< a block's bytes are on the device before it appears
};

struct file_store_options {
  std::filesystem::path directory{}; ///< created if missing
  core::model_fingerprint model{};
  core::block_layout layout{};
  unsigned queue_depth = 64; ///< of all threads together
  unsigned threads = 2;
  durability keep = durability::process;
  bool direct_io = true; ///< where the file system has it
  /// Disk space for this model's blocks, kept by giving up the least recently used; 0: no limit. All stores
  /// over the directory that have one count together, where it has file locks. See bounded_store.hpp.
  std::uint64_t capacity_bytes = 0;
};

/// Errors, each one sentence: invalid_argument (options), io (the directory), unsupported (io_uring).
core::result<std::unique_ptr<block_store>> open_file_store(file_store_options options);

} // namespace dualpath::storage

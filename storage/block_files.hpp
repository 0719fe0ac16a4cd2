// One block, one file: the steps that read, write and remove it. A file is a header page and the padded
// payload.
//
// A write goes to a temporary file, whose rename makes the block appear whole; concurrent writers of a key
// replace equal bytes by equal bytes. A read takes header and payload in one go and believes nothing before
// it is verified. Everything runs on the thread of the ring; the arguments must stay until the task ends.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "storage/block_header.hpp"
#include "storage/block_store.hpp"
#include "storage/checksum.hpp"
#include "storage/disk_slots.hpp"
#include "storage/store_folder.hpp"
#include "storage/task.hpp"
#include "storage/uring.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dualpath::storage {

class block_files {
public:
  struct identity {
    core::model_fingerprint model;
    core::block_layout layout;
  };

  /// `depth`: of the disk's operations, the most that read or write at a time.
  block_files(uring& ring, store_folder& folder, identity id, bool sync, unsigned depth)
      : ring_{ring}, folder_{folder}, id_{id}, sync_{sync}, disk_{depth} {}

  std::uint64_t payload_bytes() const { return id_.layout.full_block_bytes(); }
  std::uint64_t file_bytes() const { return header_bytes + padded_bytes(payload_bytes()); }

  /// not_found (also for a block of another model, layout or version, which is left alone), corrupt (and
  /// removed), io.
  task<core::result<void>> read(const core::block_key& key, std::span<std::byte> payload, header_page page);
  /// no_space, io; nothing is left behind.
  task<core::result<void>> write(const block_name& name, std::span<const std::byte> payload,
                                 header_page page);
  task<core::result<void>> remove(const core::block_key& key);
  /// Reads the header of a file of `size_bytes` alone. As read().
  task<core::result<block_name>> read_name(const core::block_key& key, std::uint64_t size_bytes,
                                           header_page page);

private:
  enum class direction { read, write };

  /// Moves page and payload, going on after short transfers. The bytes moved, fewer only at the end of the
  /// file, or -errno. With `sum`, payload goes in pieces, each added to it while it is in the cache.
  task<std::int64_t> transfer(direction way, int file, header_page page, std::span<std::byte> payload,
                              running_checksum* sum = nullptr);
  task<int> create(const char* path);
  task<int> publish(const char* temp, const core::block_key& key);
  /// A direct write that makes its file longer holds up the kernel; one into space that is allocated does
  /// not. And a full disk is found out before anything is written.
  task<int> preallocate(int file);
  task<int> fill(int file, std::span<const std::byte> payload, header_page page);
  task<int> discard(const char* path);
  /// Opens, transfers and closes. The header, found sound and ours.
  task<core::result<block_header>> load(const core::block_key& key, std::span<std::byte> payload,
                                        header_page page);
  core::error failure(int code, std::string_view verb, const core::block_key& key) const;

  uring& ring_;
  store_folder& folder_;
  const identity id_;
  const bool sync_;
  disk_slots disk_;
  bool allocates_ = true; ///< until the file system says that it cannot
};

} // namespace dualpath::storage

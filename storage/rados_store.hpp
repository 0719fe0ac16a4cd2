// Full Blocks as objects of a Ceph pool, one object a block, each model and layout in a namespace of its own.
//
// A write is one operation on the object that creates it with header and payload, or does nothing where it
// exists; the cluster makes it appear whole or not at all. A read takes header and payload in one operation
// and believes nothing before it is verified; a bad object is removed, provided it is still the one that was
// read. Replication is the pool's: losing an OSD costs time, no blocks. What the cluster does not answer ends
// as io when its deadline has passed, counted from when it was sent.
//
// One thread per store submits, verifies and completes, `queue_depth` operations at a time; the rest wait
// their turn. Closing waits for what the cluster has begun and completes the rest with `closed`. A store must
// not be closed, nor scan() be called, from a completion.
#pragma once

#include "core/clock.hpp"
#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace dualpath::storage {

struct rados_store_options {
  std::filesystem::path conf{}; ///< ceph.conf; names the monitors and the keyring
  std::string pool{};
  std::string user = "admin"; ///< without "client."
  core::model_fingerprint model{};
  core::block_layout layout{};
  unsigned queue_depth = 64;
  core::duration deadline = std::chrono::seconds{30};         ///< of an operation, counted in whole seconds
  core::duration connect_deadline = std::chrono::seconds{10}; ///< of the opening
  /// Space for this model's blocks, before replication; 0: no limit. See bounded_store.hpp.
  std::uint64_t capacity_bytes = 0;
};

/// Blocks until connected. Errors, each one sentence: invalid_argument (options, conf, pool), io (no answer).
core::result<std::unique_ptr<block_store>> open_rados_store(rados_store_options options);

} // namespace dualpath::storage

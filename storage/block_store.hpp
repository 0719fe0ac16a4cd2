// The external store of Full Blocks. Blocks are named by content (core/layout/block_key), appear whole or not
// at all, and are verified on every read: a bad, short or missing block is an error the caller counts as a
// miss, never wrong data. Implementations: file_store (io_uring over any POSIX mount), sim_store (memory,
// modelled time).
//
// Threading: all calls are thread-safe and none blocks, except scan(); completions run once each on a thread
// of the store, never inside the call. Buffers must stay until the completion.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace dualpath::storage {

/// Buffers handed to read() and write() must be aligned to this, and be padded_bytes() long.
inline constexpr std::uint64_t buffer_alignment = 4096;

constexpr std::uint64_t padded_bytes(std::uint64_t bytes) {
  return (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
}

/// A block's name and its place in the trie of prefixes.
struct block_name {
  core::block_key key;
  core::block_key parent;  ///< the root key for the first block of a prompt
  std::uint32_t depth = 0; ///< blocks before it in its prefix
  friend bool operator==(const block_name&, const block_name&) = default;
};

struct store_counters {
  std::uint64_t reads = 0, read_bytes = 0;
  std::uint64_t writes = 0, written_bytes = 0;
  std::uint64_t missing = 0, corrupt = 0, io_errors = 0, no_space = 0;
};

class block_store {
public:
  using done = std::function<void(core::result<void>)>;

  virtual ~block_store() = default;
  /// Size of a block's payload; the same for every block of a store.
  virtual std::uint64_t payload_bytes() const = 0;

  /// Reads and verifies a block. Errors: not_found, corrupt (the block is removed as well), io, closed.
  virtual void read(const core::block_key& key, std::span<std::byte> payload, done on_done) = 0;
  /// Stores a block; storing one that exists succeeds and changes nothing. Errors: no_space, io, closed.
  virtual void write(const block_name& name, std::span<const std::byte> payload, done on_done) = 0;
  /// Removing a missing block succeeds.
  virtual void remove(const core::block_key& key, done on_done) = 0;
  /// Visits every stored block of this store's model and layout, parents in any order. Blocks the caller.
  virtual core::result<void> scan(const std::function<void(const block_name&)>& visit) = 0;

  /// Has `tell` called, from any thread, with every block the store gives up by itself to make room; it must
  /// neither block nor call the store. One listener: the latest.
  virtual void on_evicted(std::function<void(const core::block_key&)> /*tell*/) {}

  virtual store_counters counters() const = 0;
  /// What the store is and found when it opened, in one line for a log.
  virtual std::string describe() const { return {}; }
};

} // namespace dualpath::storage

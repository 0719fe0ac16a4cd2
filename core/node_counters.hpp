// What moved through the NICs of a node. Shared by the node's actors and read when a run ends, so that counts
// survive the restart of an actor. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace dualpath::core {

struct node_counters {
  std::atomic<std::uint64_t> storage_read_bytes{0}, storage_written_bytes{0};
  std::atomic<std::uint64_t> kv_put_bytes{0}, kv_get_bytes{0}, copied_bytes{0};
  std::atomic<std::uint64_t> blocks_written{0}, blocks_missing{0}, blocks_corrupt{0};
  std::atomic<std::uint64_t> blocks_unreadable{0}; ///< of hits, computed since neither side could read them
  std::atomic<std::uint64_t> blocks_unwritten{0};  ///< I/O errors, not a full disk
  std::atomic<std::uint64_t> read_errors{0};       ///< reads that ended with an I/O error
  std::atomic<std::uint64_t> storage_overdue{0};   ///< operations not answered in time
  std::atomic<std::uint64_t> adopted_tokens{0}; ///< of hits read for an earlier attempt, and not read again
  std::atomic<std::uint32_t> engine_restarts{0};
  std::atomic<bool> store_full{false};
};

} // namespace dualpath::core

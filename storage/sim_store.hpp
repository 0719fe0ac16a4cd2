// The simulated twin of the file store: blocks in memory, time and faults from a model. With no model at all
// it is the store that costs nothing (policy `oracle`): memory speed, still asynchronous.
//
// Blocks lie on a shelf that several stores may share, as the nodes of a cluster share one external store
// while each has a storage NIC, a queue and faults of its own. A read or write first waits for its direction
// of the NIC to move the bytes of those before it (bandwidth), then for the latency. It takes effect when it
// completes.
//
// Threading: as the contract says, with completions on the clock's thread. Under core::manual_clock, which
// has none, all calls come from the thread that advances it. The clock must outlive the store; operations in
// flight when the store ends complete with `closed` from its destructor, which must not be called from a
// completion.
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <cstdint>
#include <memory>

namespace dualpath::storage {

struct sim_timing {
  core::duration latency{0};
  double read_bytes_per_s = 0;  ///< 0: no limit
  double write_bytes_per_s = 0; ///< 0: no limit
};

/// Probabilities are per operation, from 0 to 1; at most one fault of a kind each, drawn in order of the
/// calls.
struct sim_faults {
  std::uint64_t seed = 1;
  double missing = 0;  ///< of reads: someone else removed the block
  double corrupt = 0;  ///< of reads: a bit of the payload flipped
  double io_error = 0; ///< of reads, writes and removals; leaves the store as it was
  double delayed = 0;  ///< of all operations
  core::duration delay{0};
  std::uint64_t capacity_bytes =
      0; ///< payload bytes on the shelf beyond which writes find no space; 0: no limit
};

/// The blocks of one external store; those of stores with another payload size are misses. Thread-safe.
class sim_shelf;
std::shared_ptr<sim_shelf> make_sim_shelf();

struct sim_store_options {
  std::uint64_t payload_bytes = 0;
  core::clock* clock = nullptr;       ///< null: real time, on a thread of the store's own
  std::shared_ptr<sim_shelf> shelf{}; ///< null: one of its own
  sim_timing timing{};
  sim_faults faults{};
  bool verify = true; ///< checksum every read, as the file store does
  bool keep_payload =
      true; ///< false: only names are kept and buffers never touched, for clusters larger than memory
};

/// Errors: invalid_argument (a value out of range).
core::result<std::unique_ptr<block_store>> open_sim_store(sim_store_options options);

} // namespace dualpath::storage

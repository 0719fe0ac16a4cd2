// Keeps a block store within a capacity: before a write it gives up the least recently used blocks that no
// stored block continues, so that what is left are prefixes without gaps. A block that is being read is never
// taken; a write that finds every block in use waits for one to be released, and for the removals that make
// room for it. So the blocks of this store never take more than the capacity.
//
// With a ledger, stores in other processes that share the blocks count together: they agree on what is
// stored and on the order of use, and a write waits for its turn on a thread of the store. A block that
// another process is reading may be given up; its reader has the file open and reads on, and whoever comes
// later misses. Without a ledger, or the room to write one, the blocks of others are counted from the next
// opening on.
//
// Threading, completions and errors as storage/block_store.hpp.
#pragma once

#include "core/result.hpp"
#include "storage/block_ledger.hpp"
#include "storage/block_store.hpp"

#include <cstdint>
#include <memory>

namespace dualpath::storage {

/// Scans `inner`, which takes a while for many blocks, unless others have the ledger open, which then tells.
/// `block_bytes` is what one block costs on the medium. Errors: invalid_argument (no room for a single
/// block), those of scan() and of the ledger.
core::result<std::unique_ptr<block_store>> bound_store(std::unique_ptr<block_store> inner,
                                                       std::uint64_t block_bytes,
                                                       std::uint64_t capacity_bytes,
                                                       std::unique_ptr<block_ledger> ledger = nullptr);

} // namespace dualpath::storage

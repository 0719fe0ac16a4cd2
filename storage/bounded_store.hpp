// Keeps a block store within a capacity: before a write it gives up the least recently used blocks that no
// stored block continues, so that what is left are prefixes without gaps. A block that is being read is never
// taken; a write that finds every block in use waits for one to be released, and for the removals that make
// room for it. So the blocks of this store never take more than the capacity.
//
// Other processes may share the blocks: theirs are counted from the next opening on, and losing one is a
// miss. Threading, completions and errors as storage/block_store.hpp.
#pragma once

#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <cstdint>
#include <memory>

namespace dualpath::storage {

/// Scans `inner`, which takes a while for many blocks. `block_bytes` is what one block costs on the medium.
/// Errors: invalid_argument (no room for a single block), those of scan().
core::result<std::unique_ptr<block_store>>
bound_store(std::unique_ptr<block_store> inner, std::uint64_t block_bytes, std::uint64_t capacity_bytes);

} // namespace dualpath::storage

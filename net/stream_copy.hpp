// Copies past the caches: for transfers so large that what is written would be gone from a cache before
// anybody reads it. A plain copy reads every line of the target first, and drives out what others have there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dualpath::net {

/// About the share of a core in the last cache. glibc leaves the caches alone only from most of that cache
/// on, which a machine with many cores never gets to.
inline constexpr std::uint64_t streamed_bytes = 16ULL << 20;

/// As memcpy. What it wrote is ordered before what the thread writes next.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

} // namespace dualpath::net

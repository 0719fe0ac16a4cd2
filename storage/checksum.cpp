#include "storage/checksum.hpp"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
// Chooses SSE2, AVX2 or AVX-512 at run time; the plain function is bound to the compiler's baseline.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace dualpath::storage {

checksum128 checksum(std::span<const std::byte> data) {
  auto hash = XXH3_128bits(data.data(), data.size());
  return {.low = hash.low64, .high = hash.high64};
}

} // namespace dualpath::storage

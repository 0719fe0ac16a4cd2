#include "storage/checksum.hpp"

#include "storage/fetch_ahead.hpp"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
// Chooses SSE2, AVX2 or AVX-512 at run time; the plain function is bound to the compiler's baseline.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace dualpath::storage {
namespace {

/// Below, the state of a running checksum costs more than fetching ahead gains.
constexpr std::size_t least_fetched_bytes = 64 << 10;

checksum128 of(const XXH128_hash_t& hash) { return {.low = hash.low64, .high = hash.high64}; }

} // namespace

void running_checksum::free_state::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

running_checksum::running_checksum() : state_{XXH3_createState()} { XXH3_128bits_reset(state_.get()); }

void running_checksum::add(std::span<const std::byte> piece) {
  XXH3_128bits_update(state_.get(), piece.data(), piece.size());
}

checksum128 running_checksum::value() const { return of(XXH3_128bits_digest(state_.get())); }

checksum128 checksum(std::span<const std::byte> data) {
  if (data.size() <= least_fetched_bytes) return of(XXH3_128bits(data.data(), data.size()));
  running_checksum sum;
  for_each_part(data, [&](std::span<const std::byte> part) { sum.add(part); });
  return sum.value();
}

} // namespace dualpath::storage

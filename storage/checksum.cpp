#include "storage/checksum.hpp"

#include <algorithm>

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
// Chooses SSE2, AVX2 or AVX-512 at run time; the plain function is bound to the compiler's baseline.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace dualpath::storage {
namespace {

// A core's own prefetcher stops at the end of a page and does not hide all of the way to memory: a page is
// fetched two pages ahead, into the second level of the cache, which it does not crowd.
constexpr std::size_t page_bytes = 4096, ahead_bytes = 2 * page_bytes, line_bytes = 64;

checksum128 of(const XXH128_hash_t& hash) { return {.low = hash.low64, .high = hash.high64}; }

void fetch(std::span<const std::byte> data, std::size_t from, std::size_t to) {
  for (auto at = from; at < std::min(to, data.size()); at += line_bytes)
    __builtin_prefetch(data.data() + at, 0, 2);
}

} // namespace

void running_checksum::free_state::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

running_checksum::running_checksum() : state_{XXH3_createState()} { XXH3_128bits_reset(state_.get()); }

void running_checksum::add(std::span<const std::byte> piece) {
  XXH3_128bits_update(state_.get(), piece.data(), piece.size());
}

checksum128 running_checksum::value() const { return of(XXH3_128bits_digest(state_.get())); }

checksum128 checksum(std::span<const std::byte> data) {
  if (data.size() <= ahead_bytes) return of(XXH3_128bits(data.data(), data.size()));
  running_checksum sum;
  fetch(data, 0, ahead_bytes);
  for (std::size_t at = 0; at < data.size(); at += page_bytes) {
    fetch(data, at + ahead_bytes, at + ahead_bytes + page_bytes);
    sum.add(data.subspan(at, std::min(page_bytes, data.size() - at)));
  }
  return sum.value();
}

} // namespace dualpath::storage

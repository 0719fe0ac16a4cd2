// Finds damage, not malice: XXH3-128 at memory speed, with the widest vector unit of this machine. Over bytes
// that are still in a core's cache it costs a fraction of what it costs to fetch them from memory, so whoever
// has just copied bytes should hash them piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s; // of xxhash

namespace dualpath::storage {

struct checksum128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const checksum128&, const checksum128&) = default;
};

/// Of bytes that come from memory: they are fetched ahead of the arithmetic.
checksum128 checksum(std::span<const std::byte> data);

/// The same of bytes that come in pieces, each just after it was written. For one thread.
class running_checksum {
public:
  running_checksum();
  void add(std::span<const std::byte> piece);
  checksum128 value() const;

private:
  struct free_state {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, free_state>
      state_; ///< on the heap, which aligns it as a coroutine's frame does not
};

} // namespace dualpath::storage

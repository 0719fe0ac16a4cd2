// Finds damage, not malice: XXH3-128 at memory speed, with the widest vector unit of this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dualpath::storage {

struct checksum128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const checksum128&, const checksum128&) = default;
};

checksum128 checksum(std::span<const std::byte> data);

} // namespace dualpath::storage

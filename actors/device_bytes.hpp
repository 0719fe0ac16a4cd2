// Opaque bytes of devices on their way through messages, which carry plain integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace dualpath::actors {

inline std::vector<std::byte> to_bytes(std::span<const std::uint8_t> from) {
  std::vector<std::byte> out(from.size());
  if (!from.empty()) std::memcpy(out.data(), from.data(), from.size());
  return out;
}

inline std::vector<std::uint8_t> from_bytes(std::span<const std::byte> from) {
  std::vector<std::uint8_t> out(from.size());
  if (!from.empty()) std::memcpy(out.data(), from.data(), from.size());
  return out;
}

} // namespace dualpath::actors

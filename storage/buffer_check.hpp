// The one rule for buffers handed to a block store: long enough and aligned.
#pragma once

#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dualpath::storage {

inline std::optional<core::error> buffer_misfit(std::span<const std::byte> buffer,
                                                std::uint64_t payload_bytes) {
  auto needed = padded_bytes(payload_bytes);
  if (buffer.size() < needed)
    return core::error{core::errc::invalid_argument, "a block buffer has " + std::to_string(buffer.size())
                                                         + " bytes; blocks of this store need "
                                                         + std::to_string(needed)};
  if (reinterpret_cast<std::uintptr_t>(buffer.data()) % buffer_alignment != 0)
    return core::error{core::errc::invalid_argument, "a block buffer is not aligned to "
                                                         + std::to_string(buffer_alignment)
                                                         + " bytes; take buffers from an aligned pool"};
  return {};
}

} // namespace dualpath::storage

// The first 4096 bytes of a stored block: what the block is, whose it is, and the checksum of its payload.
// The page ends in a checksum of itself, which is verified before anything in it is interpreted, so that a
// page of random bytes is an error and never more. Schema: proto/block.capnp. Pure functions, thread-safe.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "storage/block_store.hpp"
#include "storage/checksum.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace dualpath::storage {

inline constexpr std::size_t header_bytes = 4096;
using header_page = std::span<std::byte, header_bytes>;
using const_header_page = std::span<const std::byte, header_bytes>;

struct block_header {
  block_name name;
  core::model_fingerprint model;
  core::block_layout layout;
  std::uint64_t payload_bytes = 0;
  checksum128 payload_checksum; ///< of padded_bytes(payload_bytes)
  friend bool operator==(const block_header&, const block_header&) = default;
};

/// Fills the whole page.
void encode_header(const block_header& header, header_page page);

/// Errors: corrupt (damaged, or no header at all), unsupported (sound, but of another version of this
/// format).
core::result<block_header> decode_header(const_header_page page);

} // namespace dualpath::storage

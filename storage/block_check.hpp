// The one rule for believing what a store read: header page, name, owner, size and checksum, in this order.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "storage/block_header.hpp"
#include "storage/checksum.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dualpath::storage {

/// Whose blocks are read, and the name of the place for error texts.
struct block_owner {
  const core::model_fingerprint& model;
  const core::block_layout& layout;
  std::string_view place;
};

/// "block KEY in PLACE WHY".
core::error bad_block(core::errc code, const core::block_key& key, std::string_view place,
                      std::string_view why);

/// `read_bytes` of page and payload, in this order, were read of the block stored as `key`; an empty payload
/// checks the header alone. `sum` is the payload's checksum where it is known already. Errors: not_found
/// (sound, but of another model, layout or version: leave it alone), corrupt.
core::result<block_header> check_block(const block_owner& owner, const core::block_key& key,
                                       std::uint64_t read_bytes, const_header_page page,
                                       std::span<const std::byte> payload,
                                       std::optional<checksum128> sum = {});

} // namespace dualpath::storage

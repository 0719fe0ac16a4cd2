// Names of stored blocks: a hash chain over (model fingerprint; parent key; token ids), stable across
// processes and machines, so that equal prefixes of the same model meet in the store and nothing else ever
// does. SHA-256 cut to 128 bits: prompts come from strangers, who must not be able to construct a collision.
#pragma once

#include "core/ids.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dualpath::core {

struct block_key {
  std::array<std::uint8_t, 16> bytes{};
  friend constexpr auto operator<=>(const block_key&, const block_key&) = default;
};

/// Names a model as far as its KV bytes depend on it: weights, KV dtype, layout and block size.
struct model_fingerprint {
  std::array<std::uint8_t, 16> bytes{};
  friend constexpr auto operator<=>(const model_fingerprint&, const model_fingerprint&) = default;
};

/// The key before the first block; differs between models, so all keys after it do.
block_key root_key(const model_fingerprint& model);
/// The key of the block holding `tokens` after the block named `parent`.
block_key child_key(const block_key& parent, std::span<const token_id> tokens);
/// The keys of all whole blocks of `tokens`, in order.
std::vector<block_key> key_chain(const model_fingerprint& model, std::span<const token_id> tokens,
                                 std::uint32_t block_tokens);

/// 32 lower-case hexadecimal digits.
std::string to_hex(const block_key& key);
/// SHA-256 of `data`, cut to 128 bits; the one hash behind keys and fingerprints.
std::array<std::uint8_t, 16> digest128(std::span<const std::byte> data);

} // namespace dualpath::core

template <>
struct std::hash<dualpath::core::block_key> {
  std::size_t operator()(const dualpath::core::block_key& key) const noexcept {
    std::size_t h;
    std::memcpy(&h, key.bytes.data(), sizeof h);
    return h;
  }
};

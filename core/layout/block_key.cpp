#include "core/layout/block_key.hpp"

#include <openssl/sha.h>

namespace dualpath::core {

namespace {

// Integers enter the hash as little-endian bytes, whatever the machine.
void append_u32(std::vector<std::byte>& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(value >> shift));
}

void append_bytes(std::vector<std::byte>& out, std::span<const std::uint8_t> bytes) {
  for (auto b : bytes) out.push_back(static_cast<std::byte>(b));
}

} // namespace

std::array<std::uint8_t, 16> digest128(std::span<const std::byte> data) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> full;
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), full.data());
  std::array<std::uint8_t, 16> cut;
  std::memcpy(cut.data(), full.data(), cut.size());
  return cut;
}

block_key root_key(const model_fingerprint& model) {
  std::vector<std::byte> input;
  for (char c : std::string_view{"dualpath-kv-1"}) input.push_back(static_cast<std::byte>(c));
  append_bytes(input, model.bytes);
  return {digest128(input)};
}

block_key child_key(const block_key& parent, std::span<const token_id> tokens) {
  std::vector<std::byte> input;
  input.reserve(parent.bytes.size() + tokens.size() * sizeof(token_id));
  append_bytes(input, parent.bytes);
  for (auto token : tokens) append_u32(input, token);
  return {digest128(input)};
}

std::vector<block_key> key_chain(const model_fingerprint& model, std::span<const token_id> tokens,
                                 std::uint32_t block_tokens) {
  std::vector<block_key> chain;
  chain.reserve(tokens.size() / block_tokens);
  auto parent = root_key(model);
  for (std::size_t begin = 0; begin + block_tokens <= tokens.size(); begin += block_tokens) {
    parent = child_key(parent, tokens.subspan(begin, block_tokens));
    chain.push_back(parent);
  }
  return chain;
}

std::string to_hex(const block_key& key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (auto b : key.bytes) {
    text.push_back(digits[b >> 4]);
    text.push_back(digits[b & 15]);
  }
  return text;
}

} // namespace dualpath::core

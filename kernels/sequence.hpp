// The tokens of one request as a compute device sees them, with a running hash of every prefix. The hash lets
// the pattern device derive KV bytes from (prefix, layer, position) in constant time per row. Not
// thread-safe.
#pragma once

#include "core/ids.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dualpath::kernels {

class sequence {
public:
  sequence() = default;
  explicit sequence(std::span<const core::token_id> tokens) { append(tokens); }

  void append(core::token_id token) {
    auto h = prefix_hash_.empty() ? seed : prefix_hash_.back();
    prefix_hash_.push_back(mix(h ^ (token + 1)));
    tokens_.push_back(token);
  }
  void append(std::span<const core::token_id> tokens) {
    tokens_.reserve(tokens_.size() + tokens.size());
    prefix_hash_.reserve(tokens_.capacity());
    for (auto token : tokens) append(token);
  }

  std::span<const core::token_id> tokens() const { return tokens_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(tokens_.size()); }
  /// Depends on every token up to and including `position`.
  std::uint64_t prefix_hash(std::uint32_t position) const { return prefix_hash_[position]; }

  /// The finaliser of splitmix64.
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

private:
  static constexpr std::uint64_t seed = 0x6475616c70617468ULL;
  std::vector<core::token_id> tokens_;
  std::vector<std::uint64_t> prefix_hash_;
};

} // namespace dualpath::kernels

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
  /// The first `unknown` tokens are not known: enough where their KV rows are there, and the device does not
  /// verify them.
  sequence(std::uint32_t unknown, std::span<const core::token_id> tokens) : unknown_{unknown} {
    append(tokens);
  }

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

  /// `count` tokens from position `first` on; all known.
  std::span<const core::token_id> tokens(std::uint32_t first, std::uint32_t count) const {
    return std::span{tokens_}.subspan(first - unknown_, count);
  }
  std::uint32_t size() const { return unknown_ + static_cast<std::uint32_t>(tokens_.size()); }
  /// Position of the first token that is known.
  std::uint32_t known_from() const { return unknown_; }
  /// Depends on every token up to and including `position`; only where all are known.
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
  std::uint32_t unknown_ = 0;
  std::vector<core::token_id> tokens_;
  std::vector<std::uint64_t> prefix_hash_;
};

} // namespace dualpath::kernels

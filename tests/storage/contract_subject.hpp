// A block store for the tests of the contract; who links them says which stores there are.
#pragma once

#include "fixture.hpp"

#include <functional>

namespace dualpath::storage::testing {

// 10 200 bytes: not a whole number of pages.
inline constexpr core::block_layout layout{.layers = 3, .block_tokens = 4, .token_bytes = 850};
inline constexpr std::uint64_t payload_bytes = layout.full_block_bytes();

/// Opens stores that share their blocks; opening again finds what was stored.
struct subject {
  std::string name;
  std::function<std::unique_ptr<block_store>()> open;
  std::shared_ptr<void> keeps;
};

inline std::unique_ptr<block_store> take(core::result<std::unique_ptr<block_store>> opened) {
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  return std::move(*opened);
}

/// A store without blocks. Runs the rest of the test once for every kind.
subject any_store();

} // namespace dualpath::storage::testing

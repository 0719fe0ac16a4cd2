// Strong types for everything that is numbered, so that a node can never be passed where an engine is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace dualpath::core {

template <class Tag, class Rep>
struct strong_id {
  using rep = Rep;
  Rep value{};

  constexpr strong_id() = default;
  constexpr explicit strong_id(Rep v) : value{v} {}
  friend constexpr auto operator<=>(const strong_id&, const strong_id&) = default;
};

using node_id = strong_id<struct node_id_tag, std::uint32_t>;
using engine_id = strong_id<struct engine_id_tag, std::uint32_t>;
using request_id = strong_id<struct request_id_tag, std::uint64_t>;
/// Rises with every hand-over of a request; whatever carries an older epoch is dropped at the door.
using epoch = strong_id<struct epoch_tag, std::uint64_t>;
/// Rises with every restart of an engine.
using incarnation = strong_id<struct incarnation_tag, std::uint32_t>;
/// A registered memory region of this process.
using region_id = strong_id<struct region_id_tag, std::uint32_t>;

/// Token ids are plain integers: they are data, not names of our own things.
using token_id = std::uint32_t;

enum class engine_role : std::uint8_t { prefill, decode };

constexpr const char* to_string(engine_role role) {
  return role == engine_role::prefill ? "prefill" : "decode";
}

} // namespace dualpath::core

template <class Tag, class Rep>
struct std::hash<dualpath::core::strong_id<Tag, Rep>> {
  std::size_t operator()(const dualpath::core::strong_id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};

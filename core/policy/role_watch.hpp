// How long a cluster may do without a role. When its last node is lost for good, requests wait for another to
// join; not for ever, since nobody may be about to start one. One watch a role; time counts only while
// requests wait, so that a cluster which is idle loses nothing by it.
#pragma once

#include "core/clock.hpp"

#include <cstdint>
#include <optional>

namespace dualpath::core {

class role_watch {
public:
  enum class verdict : std::uint8_t {
    served,  ///< somebody has the role, or nobody asks for it
    awaited, ///< requests wait for somebody to join
    given_up ///< for longer than anybody wants to
  };

  /// A patience of 0 is none: nobody can join.
  explicit role_watch(duration patience = {}) : patience_{patience} {}

  /// `missing`: no node has the role; `requests`: those that wait for one.
  verdict observe(bool missing, std::uint64_t requests, instant now);

private:
  duration patience_;
  std::optional<instant> awaited_since_;
};

} // namespace dualpath::core

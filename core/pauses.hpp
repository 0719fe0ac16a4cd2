// How often and for how long a process was paused: stopped, or so starved that it got no CPU.
#pragma once

#include "core/clock.hpp"

#include <cstdint>

namespace dualpath::core {

struct pauses {
  std::uint64_t count = 0;
  duration total{0};

  /// Those that came after `before`.
  pauses since(const pauses& before) const { return {count - before.count, total - before.total}; }
};

} // namespace dualpath::core

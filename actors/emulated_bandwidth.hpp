// How the NIC actors slow down to the bandwidth that a run emulates.
#pragma once

#include "core/policy/token_bucket.hpp"

#include <cstdint>

namespace dualpath::actors {

/// One direction of a NIC; 0: as fast as it goes. Exact over times longer than the burst of 2 ms, which also
/// hides the granularity of timers.
inline core::token_bucket emulate_bandwidth(double bytes_per_s) {
  constexpr double burst_s = 0.002;
  return core::token_bucket{bytes_per_s, static_cast<std::uint64_t>(bytes_per_s * burst_s) + 1};
}

} // namespace dualpath::actors

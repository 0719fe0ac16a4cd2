// When agents start: all at once (offline inference), at the times of the trace, or as a Poisson process
// (online).
#pragma once

#include "core/workload/trace.hpp"

#include <cstdint>

namespace dualpath::core {

enum class arrival_kind : std::uint8_t {
  closed,  ///< all at once
  trace,   ///< at the arrival times in the trace
  poisson, ///< at random, `rate_per_s` agents a second, in trace order
};

struct arrival_process {
  arrival_kind kind = arrival_kind::closed;
  double rate_per_s = 0;
};

/// Sets arrival_ms of every trajectory; the same arguments give the same times.
trace set_arrivals(trace t, const arrival_process& process, std::uint64_t seed);

} // namespace dualpath::core

#include "core/workload/arrival.hpp"

#include <cmath>
#include <random>

namespace dualpath::core {

trace set_arrivals(trace t, const arrival_process& process, std::uint64_t seed) {
  if (process.kind == arrival_kind::trace) return t;
  std::mt19937_64 engine{seed};
  double now_ms = 0;
  for (auto& one : t.trajectories) {
    one.arrival_ms = now_ms;
    if (process.kind != arrival_kind::poisson) continue;
    auto uniform = (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53; // in (0, 1)
    now_ms -= std::log(uniform) / process.rate_per_s * 1000;
  }
  return t;
}

} // namespace dualpath::core

#include "core/policy/busy_rate.hpp"

#include <cmath>

namespace dualpath::core {

void busy_rate::begin(instant now) {
  if (busy_) return;
  busy_ = true;
  since_ = now;
}

void busy_rate::done(std::uint64_t units, instant now) {
  advance(now);
  units_ += static_cast<double>(units);
}

void busy_rate::end(instant now) {
  advance(now);
  busy_ = false;
}

void busy_rate::advance(instant now) {
  if (!busy_) return;
  auto passed_s = to_seconds(now - since_);
  since_ = now;
  auto kept = std::exp(-passed_s / memory_s_);
  units_ *= kept;
  busy_s_ = busy_s_ * kept + passed_s;
  seen_s_ += passed_s;
}

} // namespace dualpath::core

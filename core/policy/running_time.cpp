#include "core/policy/running_time.hpp"

#include <algorithm>

namespace dualpath::core {

running_time::running_time(duration interval, instant last, duration ran)
    : interval_{interval}, last_{last}, ran_{ran} {}

duration running_time::tick(instant now) {
  auto late = std::max(now - last_ - interval_, duration{0});
  ran_ = at(now);
  last_ = now;
  return late;
}

duration running_time::at(instant when) const { return ran_ + std::min(when - last_, 2 * interval_); }

} // namespace dualpath::core

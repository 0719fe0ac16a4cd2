#include "core/policy/running_time.hpp"

#include <algorithm>

namespace dualpath::core {

running_time::running_time(duration interval, instant start) : most_{2 * interval}, last_{start} {}

duration running_time::tick(instant now) {
  auto passed = now - last_;
  auto ran = std::min(passed, most_);
  ran_ += ran;
  last_ = now;
  return passed - ran;
}

duration running_time::at(instant when) const { return ran_ + std::min(when - last_, most_); }

} // namespace dualpath::core

// The time in which this process ran, told by its own ticks: one that comes late comes after a pause of the
// process, which was stopped (SIGSTOP) or got no CPU. In a pause it hears nobody, so a pause says
// nothing about anybody else. Time is an argument; not thread-safe.
#pragma once

#include "core/clock.hpp"

namespace dualpath::core {

class running_time {
public:
  /// Ticks are planned `interval` after one another. The last was at `last`, or it is the start; the process
  /// had run for `ran` then.
  running_time(duration interval, instant last, duration ran = {});

  /// A tick. How late it is: for at least so long the process did not run. `now` must not go back.
  duration tick(instant now);
  /// How long the process had run at `when`. What came since the last tick counts as at most two intervals,
  /// so time goes on also where ticks are always late, and a pause that is not over yet does not count.
  duration at(instant when) const;

private:
  duration interval_;
  instant last_;
  duration ran_;
};

} // namespace dualpath::core

// How fast a device works while it has something to do: units a second, idle time left out. Remembers so much
// busy time, older work fades. Time is an argument; not thread-safe.
#pragma once

#include "core/clock.hpp"

#include <cstdint>

namespace dualpath::core {

class busy_rate {
public:
  /// `memory` > 0: busy time after which work counts for 1/e.
  explicit busy_rate(duration memory) : memory_s_{to_seconds(memory)} {}

  /// There is something to do from now on; nothing changes where there was already.
  void begin(instant now);
  /// So much of it is done. `now` must not go back, here and below.
  void done(std::uint64_t units, instant now);
  /// Nothing is left to do.
  void end(instant now);

  /// 0 until a hundredth of the memory has been worked.
  double per_s() const { return seen_s_ < memory_s_ / 100 ? 0 : units_ / busy_s_; }

private:
  void advance(instant now);

  double memory_s_;
  bool busy_ = false;
  instant since_{0};                           ///< up to here busy time is counted
  double units_ = 0, busy_s_ = 0, seen_s_ = 0; ///< the first two fade
};

} // namespace dualpath::core

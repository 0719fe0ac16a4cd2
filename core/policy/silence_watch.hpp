// Who has been silent for too long, in time in which this process ran. A process that was paused finds all
// its peers silent at once; what it did not hear then is not their fault. Peers that live say something at
// least every few ticks. Time is an argument; not thread-safe.
#pragma once

#include "core/policy/running_time.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace dualpath::core {

class silence_watch {
public:
  using peer = std::uint64_t;

  /// `timeout`: of silence, several times the interval between ticks.
  silence_watch(duration timeout, duration interval, instant start);

  /// The peer said something at `when`. The first time it becomes known.
  void heard(peer who, instant when);
  void forget(peer who) { heard_at_.erase(who); }
  bool knows(peer who) const { return heard_at_.contains(who); }

  /// A tick, told what came before it. How late it is: for at least so long this process did not run. `now`
  /// must not go back.
  duration tick(instant now);
  /// Known peers that have been silent for longer than the timeout, by the last tick. One that stays silent
  /// stays among them until it is forgotten.
  std::vector<peer> silent() const;

private:
  duration timeout_;
  running_time running_;
  duration ran_{0};                     ///< at the last tick
  std::map<peer, duration> heard_at_{}; ///< in running time
};

} // namespace dualpath::core

// Limits a device to a rate without cutting its items: an item may start when the balance is not negative,
// then its whole size is taken, and the debt delays the next one. Time is an argument; not thread-safe.
#pragma once

#include "core/clock.hpp"

#include <cstdint>

namespace dualpath::core {

class token_bucket {
public:
  /// `bytes_per_s` 0: unlimited. `burst_bytes`: the largest balance, and the one to begin with.
  token_bucket(double bytes_per_s, std::uint64_t burst_bytes);

  /// The first instant from `now` on at which an item may start.
  instant ready_at(instant now) const;
  /// Takes an item; also allowed before it is ready, which deepens the debt. `now` must not go back.
  void take(std::uint64_t bytes, instant now);

  double bytes_per_s() const { return bytes_per_s_; }

private:
  double time_ns(std::uint64_t bytes) const;

  double bytes_per_s_;
  // The burst as time, whole_ns − fraction_ns.
  std::int64_t burst_whole_ns_;
  double burst_fraction_ns_;
  // The balance as the time at which it is zero, so that no sum of fractions decides whether an item is
  // ready: balance(t) = rate · (t − zero_at), zero_at = zero_ns_ + zero_fraction_ns_, 0 ≤ fraction < 1.
  std::int64_t zero_ns_;
  double zero_fraction_ns_;
};

} // namespace dualpath::core

// Time as an input. Nobody reads the wall clock: actors and devices are handed a clock, so that the same code
// runs in real time and in virtual time. `instant` counts from the clock's own start.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace dualpath::core {

using duration = std::chrono::nanoseconds;
/// Time since the clock's start.
using instant = std::chrono::nanoseconds;

constexpr double to_seconds(duration d) { return static_cast<double>(d.count()) * 1e-9; }
constexpr duration from_seconds(double s) { return duration{static_cast<std::int64_t>(s * 1e9)}; }

class clock {
public:
  virtual ~clock() = default;
  virtual instant now() const = 0;
  /// Calls `action` once at or after `when`, on a thread of the clock, in order of `when` (ties: order of
  /// calls). Actions must be short. Actions that are still pending when the clock ends are dropped.
  virtual void call_at(instant when, std::function<void()> action) = 0;
};

/// Monotonic time, with one thread for the timers. Thread-safe.
class steady_clock final : public clock {
public:
  steady_clock();
  ~steady_clock() override;
  instant now() const override;
  void call_at(instant when, std::function<void()> action) override;

private:
  void run();

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::multimap<instant, std::function<void()>> pending_;
  bool stopping_ = false;
  std::thread thread_;
};

/// Time that moves only when told to, for tests and simulation. Not thread-safe.
class manual_clock final : public clock {
public:
  instant now() const override { return now_; }
  void call_at(instant when, std::function<void()> action) override;
  /// Runs every action due up to now + step, each at its own time, then stands at now + step.
  void advance(duration step);

private:
  instant now_{0};
  std::multimap<instant, std::function<void()>> pending_;
};

} // namespace dualpath::core

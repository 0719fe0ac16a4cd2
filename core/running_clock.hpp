// The clock of whatever is waited for: it stands still while this process does. When the process goes on
// after a pause (core/policy/running_time), no deadline has passed because of it: what came meanwhile is
// still to be read. What is told of how long something took is measured by the wall clock instead.
#pragma once

#include "core/policy/running_time.hpp"

#include <atomic>
#include <memory>

namespace dualpath::core {

/// Thread-safe where the wall clock is. Without a pause between them, actions keep their order.
class running_clock final : public clock {
public:
  /// Over real time.
  running_clock();
  explicit running_clock(std::unique_ptr<clock> wall, duration interval = std::chrono::milliseconds{250});

  instant now() const override;
  void call_at(instant when, std::function<void()> action) override;
  clock& wall() const { return *wall_; }

private:
  running_time snapshot() const;
  void tick();
  void arm();

  duration interval_;
  // Written by ticks alone. The version is odd while the others change, so that nobody goes by a half of
  // each.
  std::atomic<std::uint64_t> version_{0};
  std::atomic<duration::rep> last_ns_{0}, ran_ns_{0};
  std::unique_ptr<clock> wall_; ///< ends first, with all that it was to call
};

} // namespace dualpath::core

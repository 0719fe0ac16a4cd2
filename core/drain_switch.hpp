// Asks a run, from outside and from any thread, to start nothing new and to end when what is under way has
// ended. It may be thrown before the run begins, while it runs and after it is over. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace dualpath::core {

class drain_switch {
public:
  /// Only the first call does anything.
  void request() {
    std::lock_guard lock{mutex_};
    if (std::exchange(requested_, true)) return;
    if (action_) action_();
  }
  bool requested() const {
    std::lock_guard lock{mutex_};
    return requested_;
  }
  /// Calls back once the switch is thrown, at once where it has been. The action must not use the switch.
  void attach(std::function<void()> action) {
    std::lock_guard lock{mutex_};
    action_ = std::move(action);
    if (requested_) action_();
  }
  /// The action is not running and will not be called any more.
  void detach() {
    std::lock_guard lock{mutex_};
    action_ = nullptr;
  }

private:
  mutable std::mutex mutex_;
  bool requested_ = false;
  std::function<void()> action_;
};

} // namespace dualpath::core

// Knows when the last of many things under way has ended: the fence in front of memory that they touch.
// Whoever starts something enters and keeps the pass until it is over, typically inside the completion it
// hands to a device. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace dualpath::core {

class gate {
public:
  using pass = std::shared_ptr<void>;

  /// The last copy of the pass leaves.
  pass enter() {
    auto inside = inside_;
    std::lock_guard lock{inside->mutex};
    ++inside->count;
    return pass{inside.get(), [inside](void*) { inside->leave(); }};
  }
  /// Calls back once, when nobody is inside: at once, or from the thread that leaves last.
  void when_empty(std::function<void()> action) {
    {
      std::lock_guard lock{inside_->mutex};
      if (inside_->count > 0) {
        inside_->waiting = std::move(action);
        return;
      }
    }
    action();
  }

private:
  struct state {
    std::mutex mutex;
    unsigned long count = 0;
    std::function<void()> waiting;

    void leave() {
      std::function<void()> action;
      {
        std::lock_guard lock{mutex};
        if (--count == 0) action = std::exchange(waiting, nullptr);
      }
      if (action) action();
    }
  };
  std::shared_ptr<state> inside_ = std::make_shared<state>();
};

} // namespace dualpath::core

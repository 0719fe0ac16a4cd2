// Between a clock's thread and an object that may end before what it has asked the clock to call: after
// close() nothing gets through, and nothing is inside.
#pragma once

#include "core/clock.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace dualpath::net {

class clock_door {
public:
  explicit clock_door(core::clock& clock) : clock_{clock} {}

  void call_at(core::instant when, std::function<void()> action) {
    clock_.call_at(when, [door = state_, action = std::move(action)] {
      {
        std::lock_guard lock{door->mutex};
        if (door->closed) return;
        ++door->inside;
      }
      action();
      std::lock_guard lock{door->mutex};
      if (--door->inside == 0) door->empty.notify_all();
    });
  }
  void close() {
    std::unique_lock lock{state_->mutex};
    state_->closed = true;
    state_->empty.wait(lock, [&] { return state_->inside == 0; });
  }

private:
  struct state {
    std::mutex mutex;
    std::condition_variable empty;
    unsigned inside = 0;
    bool closed = false;
  };
  core::clock& clock_;
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace dualpath::net

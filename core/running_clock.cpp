#include "core/running_clock.hpp"

namespace dualpath::core {

running_clock::running_clock() : running_clock{std::make_unique<steady_clock>()} {}

running_clock::running_clock(std::unique_ptr<clock> wall, duration interval)
    : interval_{interval},
      last_ns_{wall->now().count()},
      ran_ns_{wall->now().count()},
      wall_{std::move(wall)} {
  arm();
}

running_time running_clock::snapshot() const {
  for (;;) {
    auto before = version_.load(std::memory_order_acquire);
    instant last{last_ns_.load(std::memory_order_acquire)};
    duration ran{ran_ns_.load(std::memory_order_acquire)};
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before)
      return running_time{interval_, last, ran};
  }
}

instant running_clock::now() const {
  // In this order: a pause in between must not make the time older than what the snapshot knows.
  auto running = snapshot();
  return running.at(wall_->now());
}

void running_clock::call_at(instant when, std::function<void()> action) {
  auto running = snapshot();
  auto wall = wall_->now();
  wall_->call_at(wall + (when - running.at(wall)), [this, when, action = std::move(action)]() mutable {
    if (now() < when) {
      call_at(when, std::move(action)); // there was a pause
    } else {
      action();
    }
  });
}

void running_clock::tick() {
  auto running = snapshot();
  auto wall = wall_->now();
  running.tick(wall);
  version_.fetch_add(1, std::memory_order_relaxed);
  last_ns_.store(wall.count(), std::memory_order_release);
  ran_ns_.store(running.at(wall).count(), std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);
}

void running_clock::arm() {
  wall_->call_at(wall_->now() + interval_, [this] {
    tick();
    arm();
  });
}

} // namespace dualpath::core

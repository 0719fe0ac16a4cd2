#include "core/clock.hpp"

#include <algorithm>

namespace dualpath::core {

steady_clock::steady_clock() : thread_{[this] { run(); }} {}

steady_clock::~steady_clock() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

instant steady_clock::now() const { return std::chrono::steady_clock::now() - start_; }

void steady_clock::call_at(instant when, std::function<void()> action) {
  bool first;
  {
    std::lock_guard lock{mutex_};
    auto position = pending_.emplace(when, std::move(action));
    first = position == pending_.begin();
  }
  if (first) wake_.notify_one();
}

void steady_clock::run() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    if (pending_.empty()) {
      wake_.wait(lock);
      continue;
    }
    auto due = pending_.begin()->first;
    if (now() < due) {
      wake_.wait_until(lock, start_ + due);
      continue;
    }
    auto action = std::move(pending_.extract(pending_.begin()).mapped());
    lock.unlock();
    action();
    lock.lock();
  }
}

void manual_clock::call_at(instant when, std::function<void()> action) {
  pending_.emplace(std::max(when, now_), std::move(action));
}

void manual_clock::advance(duration step) {
  auto end = now_ + step;
  while (!pending_.empty() && pending_.begin()->first <= end) {
    auto next = pending_.extract(pending_.begin());
    now_ = next.key();
    next.mapped()();
  }
  now_ = end;
}

} // namespace dualpath::core

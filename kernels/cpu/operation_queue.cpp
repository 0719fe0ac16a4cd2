#include "kernels/cpu/operation_queue.hpp"

#include <utility>

namespace dualpath::kernels {

operation_queue::operation_queue()
    : state_{std::make_shared<state>()}, driver_{[of = state_] { drive(of); }} {}

operation_queue::~operation_queue() {
  {
    std::lock_guard lock{state_->mutex};
    state_->stopping = true;
  }
  state_->wake.notify_one();
  if (driver_.get_id() != std::this_thread::get_id()) {
    driver_.join();
    return;
  }
  // Inside an operation: the thread cannot wait for itself, so the rest are told here.
  driver_.detach();
  std::deque<operation> rest;
  {
    std::lock_guard lock{state_->mutex};
    rest.swap(state_->waiting);
  }
  for (auto& next : rest) next(false);
}

void operation_queue::push(operation next) {
  {
    std::lock_guard lock{state_->mutex};
    state_->waiting.push_back(std::move(next));
  }
  state_->wake.notify_one();
}

void operation_queue::drive(const std::shared_ptr<state>& of) {
  std::unique_lock lock{of->mutex};
  while (true) {
    of->wake.wait(lock, [&] { return of->stopping || !of->waiting.empty(); });
    if (of->waiting.empty()) return;
    auto next = std::move(of->waiting.front());
    of->waiting.pop_front();
    auto run = !of->stopping;
    lock.unlock();
    next(run);
    next = nullptr; // what it captured ends outside the lock
    lock.lock();
  }
}

} // namespace dualpath::kernels

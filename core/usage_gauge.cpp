#include "core/usage_gauge.hpp"

#include <utility>

namespace dualpath::core {

usage_gauge::share& usage_gauge::share::operator=(share&& other) noexcept {
  if (this == &other) return *this;
  set(0);
  gauge_ = std::move(other.gauge_);
  what_ = other.what_;
  used_ = std::exchange(other.used_, 0);
  return *this;
}

void usage_gauge::share::set(std::uint64_t used) {
  if (!gauge_ || used == used_) return;
  std::lock_guard lock{gauge_->mutex};
  auto& total = gauge_->used[static_cast<std::size_t>(what_)];
  total = total + used - std::exchange(used_, used);
  if (gauge_->idle()) gauge_->changed.notify_all();
}

resource_usage usage_gauge::used() const {
  std::lock_guard lock{state_->mutex};
  return state_->used;
}

resource_usage usage_gauge::await_idle(core::clock& clock, duration limit) {
  clock.call_at(clock.now() + limit, [state = state_] {
    std::lock_guard lock{state->mutex};
    state->given_up = true;
    state->changed.notify_all();
  });
  std::unique_lock lock{state_->mutex};
  state_->changed.wait(lock, [this] { return state_->idle() || state_->given_up; });
  return state_->used;
}

} // namespace dualpath::core

#include "core/epoch_door.hpp"

#include <algorithm>

namespace dualpath::core {

bool epoch_door::admits(request_id request, epoch of) const {
  if (of < oldest_) return false;
  auto known = newest_.find(request);
  return known == newest_.end() || of >= known->second;
}

void epoch_door::reached(request_id request, epoch now) {
  if (now < oldest_) return; // old without being remembered
  auto [known, is_new] = newest_.try_emplace(request, now);
  if (!is_new) {
    if (known->second >= now) return;
    by_epoch_.erase({known->second, request});
    known->second = now;
  }
  by_epoch_.emplace(now, request);
  while (newest_.size() > most_requests_) forget_oldest();
}

void epoch_door::forget_below(epoch oldest) {
  oldest_ = std::max(oldest_, oldest);
  while (!by_epoch_.empty() && by_epoch_.begin()->first < oldest_) forget_oldest();
}

void epoch_door::forget_oldest() {
  newest_.erase(by_epoch_.begin()->second);
  by_epoch_.erase(by_epoch_.begin());
}

} // namespace dualpath::core

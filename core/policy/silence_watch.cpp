#include "core/policy/silence_watch.hpp"

#include <algorithm>

namespace dualpath::core {

silence_watch::silence_watch(duration timeout, duration interval, instant start)
    : timeout_{timeout}, running_{interval, start} {}

void silence_watch::heard(peer who, instant when) {
  auto at = running_.at(when);
  auto [entry, first] = heard_at_.emplace(who, at);
  if (!first) entry->second = std::max(entry->second, at);
}

duration silence_watch::tick(instant now) {
  auto late = running_.tick(now);
  ran_ = running_.at(now);
  return late;
}

std::vector<silence_watch::peer> silence_watch::silent() const {
  std::vector<peer> found;
  for (auto& [who, at] : heard_at_)
    if (ran_ - at > timeout_) found.push_back(who);
  return found;
}

} // namespace dualpath::core

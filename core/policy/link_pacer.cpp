#include "core/policy/link_pacer.hpp"

#include <algorithm>

namespace dualpath::core {

link_pacer::link_pacer(const arbiter_tables& tables, pacing_window window)
    : arbiter_{tables}, window_{window}, high_window_bytes_{window.shared_bytes} {
  window_.quiet_shared_bytes = std::max(window_.quiet_shared_bytes, window_.shared_bytes);
  for (const auto& e : tables.high) {
    if (e.weight == 0) continue;
    if (high_.size() <= e.lane) high_.resize(e.lane + std::size_t{1});
    high_[e.lane] = true;
  }
}

bool link_pacer::is_high(lane_index lane) const { return lane < high_.size() && high_[lane]; }

bool link_pacer::has_room(lane_index lane) const {
  auto limit = is_high(lane) ? high_window_bytes_ + window_.reserve_bytes
               : quiet_      ? window_.quiet_shared_bytes
                             : window_.shared_bytes;
  return under_way_bytes_ == 0 || under_way_bytes_ < limit;
}

void link_pacer::look_for_quiet(std::span<const std::uint64_t> head_bytes, instant now) {
  bool high = false;
  for (std::size_t lane = 0; lane < head_bytes.size(); ++lane)
    high |= head_bytes[lane] > 0 && is_high(static_cast<lane_index>(lane));
  if (high || !last_high_) last_high_ = now;
  quiet_ = now - *last_high_ >= window_.quiet_after;
  if (quiet_) high_window_bytes_ = window_.quiet_shared_bytes;
}

void link_pacer::finished(std::uint64_t bytes) {
  under_way_bytes_ -= bytes;
  // Counted in bytes that end, whoever's they are: else lanes of the high table would keep the wide window
  // filled and leave the others no room.
  if (!quiet_) high_window_bytes_ -= std::min(bytes, high_window_bytes_ - window_.shared_bytes);
}

lane_index link_pacer::start(lane_index lane, std::span<const std::uint64_t> head_bytes) {
  under_way_bytes_ += head_bytes[lane];
  return lane;
}

std::optional<lane_index> link_pacer::next(std::span<const std::uint64_t> head_bytes, instant now) {
  look_for_quiet(head_bytes, now);
  if (turn_ && *turn_ < head_bytes.size() && head_bytes[*turn_] > 0) {
    if (!has_room(*turn_)) return std::nullopt;
    auto lane = *turn_;
    turn_.reset();
    return start(lane, head_bytes);
  }
  bool any = false;
  for (std::size_t lane = 0; lane < head_bytes.size(); ++lane)
    any |= head_bytes[lane] > 0 && has_room(static_cast<lane_index>(lane));
  // Not asked in vain: a pick is charged, and one made now might be regretted when another lane waits.
  if (!any) return std::nullopt;
  auto lane = arbiter_.pick(head_bytes);
  if (!lane) return std::nullopt;
  if (!has_room(*lane)) {
    turn_ = lane;
    return std::nullopt;
  }
  return start(*lane, head_bytes);
}

} // namespace dualpath::core

// Which lane may use one direction of a link next, for links that queue whatever they are given. The arbiter
// decides between lanes that wait; the pacer keeps few bytes under way, so that the decision is made late
// and what comes now waits behind little. Lanes of the high table may fill a reserve beyond the window, so
// that other lanes never use up the link in front of them. Not thread-safe.
#pragma once

#include "core/policy/arbiter.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dualpath::core {

struct pacing_window {
  std::uint64_t shared_bytes = 1ULL << 20;    ///< under way before any lane waits, but for one message
  std::uint64_t reserve_bytes = 256ULL << 10; ///< further ones, of lanes with a weight in the high table
};

class link_pacer {
public:
  link_pacer(const arbiter_tables& tables, pacing_window window);

  /// As arbiter::pick(); the message of the lane counts as under way from now on. Nothing: no lane waits, or
  /// the link has enough; ask again after finished() and when another message waits.
  std::optional<lane_index> next(std::span<const std::uint64_t> head_bytes);
  /// A message that was under way has ended.
  void finished(std::uint64_t bytes) { under_way_bytes_ -= bytes; }

  std::uint64_t under_way_bytes() const { return under_way_bytes_; }

private:
  bool is_high(lane_index lane) const;
  bool has_room(lane_index lane) const;
  lane_index start(lane_index lane, std::span<const std::uint64_t> head_bytes);

  arbiter arbiter_;
  std::vector<bool> high_; ///< by lane
  pacing_window window_;
  std::uint64_t under_way_bytes_ = 0;
  std::optional<lane_index> turn_; ///< picked when the window was full; others wait until it was sent
};

} // namespace dualpath::core

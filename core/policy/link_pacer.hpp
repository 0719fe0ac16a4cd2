// Which lane may use one direction of a link next, for links that queue whatever they are given. The arbiter
// decides between lanes that wait; the pacer keeps few bytes under way, so that the decision is made late
// and what comes now waits behind little. Lanes of the high table may fill a reserve beyond the window, so
// that other lanes never use up the link in front of them. A small window costs throughput where completions
// come late; so it is wider while the lanes it protects are silent, and only the first of their messages
// afterwards may wait behind more. Not thread-safe.
#pragma once

#include "core/clock.hpp"
#include "core/policy/arbiter.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dualpath::core {

struct pacing_window {
  std::uint64_t shared_bytes = 1ULL << 20;    ///< under way before any lane waits, but for one message
  std::uint64_t reserve_bytes = 256ULL << 10; ///< further ones, of lanes with a weight in the high table
  /// In place of shared_bytes once no lane of the high table has had a message for quiet_after.
  std::uint64_t quiet_shared_bytes = 4ULL << 20;
  duration quiet_after = std::chrono::milliseconds{10};
};

class link_pacer {
public:
  link_pacer(const arbiter_tables& tables, pacing_window window);

  /// As arbiter::pick(); the message of the lane counts as under way from now on. Nothing: no lane waits, or
  /// the link has enough; ask again after finished() and when another message waits.
  std::optional<lane_index> next(std::span<const std::uint64_t> head_bytes, instant now);
  /// A message that was under way has ended.
  void finished(std::uint64_t bytes);

  std::uint64_t under_way_bytes() const { return under_way_bytes_; }

private:
  bool is_high(lane_index lane) const;
  bool has_room(lane_index lane) const;
  void look_for_quiet(std::span<const std::uint64_t> head_bytes, instant now);
  lane_index start(lane_index lane, std::span<const std::uint64_t> head_bytes);

  arbiter arbiter_;
  std::vector<bool> high_; ///< by lane
  pacing_window window_;
  std::uint64_t under_way_bytes_ = 0;
  bool quiet_ = false;
  std::optional<instant> last_high_;
  /// In place of shared_bytes for lanes of the high table: after a silence it shrinks back as messages end.
  std::uint64_t high_window_bytes_;
  std::optional<lane_index> turn_; ///< picked when the window was full; others wait until it was sent
};

} // namespace dualpath::core

// Two connected fabrics of this process and what the benchmark of lanes sends over them.
#pragma once

#include "net/fabric.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace dualpath::net {

/// Two ends that know each other's memory.
class lane_pair {
public:
  using opener = std::function<core::result<std::unique_ptr<fabric>>(std::uint32_t side)>;

  explicit lane_pair(core::clock& clock) : clock_{clock} {}
  core::result<void> open(const opener& open_side, std::uint64_t region_bytes);

  core::clock& clock() const { return clock_; }
  fabric& at(std::size_t side) const { return *ends_[side].own; }
  peer_id peer(std::size_t side) const { return ends_[side].peer; }
  transfer moving(std::size_t side, lane on, std::vector<strided_piece> pieces) const;

private:
  struct end {
    std::unique_ptr<fabric> own;
    memory_region memory;
    peer_id peer;
    remote_region_id remote;
  };
  core::result<void> join(std::size_t side);

  core::clock& clock_;
  std::array<end, 2> ends_;
};

/// Puts in both directions that never end: each that is done is followed by another.
class flood {
public:
  flood(lane_pair& pair, lane on, std::vector<strided_piece> pieces, std::uint32_t in_flight);
  ~flood() { (void)stop(); }
  /// Lets what is in flight end. Errors: the first that any put ended with.
  core::result<void> stop();
  std::uint64_t bytes() const { return bytes_; }

private:
  void put(std::size_t side);

  lane_pair& pair_;
  const lane lane_;
  const std::vector<strided_piece> pieces_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t in_flight_ = 0;
  std::optional<core::error> failure_;
};

/// Sends a small message there and back on the collective lane for a while; the times of the round trips,
/// sorted. Answers are given where messages arrive, so that no further thread has to wake. Errors: nothing
/// came back.
core::result<std::vector<core::duration>> ping_pong(lane_pair& pair, core::duration time);

} // namespace dualpath::net

// The most bytes of requests that each peer was ever given without having answered yet. Written by the actor
// that counts them, read when a run ends. Thread-safe.
#pragma once

#include "core/ids.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>

namespace dualpath::core {

class flight_peaks {
public:
  void note(node_id peer, std::uint64_t bytes) {
    std::lock_guard lock{mutex_};
    auto& most = bytes_[peer];
    most = std::max(most, bytes);
  }
  /// Of every peer that was given anything.
  std::map<node_id, std::uint64_t> all() const {
    std::lock_guard lock{mutex_};
    return bytes_;
  }

private:
  mutable std::mutex mutex_;
  std::map<node_id, std::uint64_t> bytes_;
};

} // namespace dualpath::core

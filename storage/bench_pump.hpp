// What the benches of a store share: operations kept in flight.
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace dualpath::storage {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return core::to_seconds(std::chrono::steady_clock::now() - start);
}

/// Keeps a number of operations in flight, each in a buffer of its own, until all have been done.
class pump {
public:
  /// Starts operation `number` in buffer `lane`; the function it is handed must be called when it ends.
  using start = std::function<void(std::size_t number, std::size_t lane, block_store::done ended)>;

  pump(std::size_t total, start begin) : total_{total}, begin_{std::move(begin)} {}

  core::result<void> run(std::size_t lanes) {
    lanes = std::min(lanes, total_);
    running_ = lanes;
    for (std::size_t lane = 0; lane < lanes; ++lane) next(lane);
    std::unique_lock lock{mutex_};
    wake_.wait(lock, [&] { return running_ == 0; });
    if (failure_) return *failure_;
    return {};
  }

private:
  void next(std::size_t lane) {
    auto number = next_.fetch_add(1);
    if (number >= total_) return finish({});
    begin_(number, lane, [this, lane](core::result<void> outcome) {
      if (outcome)
        next(lane);
      else
        finish(outcome.error());
    });
  }
  void finish(std::optional<core::error> failure) {
    std::lock_guard lock{mutex_};
    if (failure) failure_ = std::move(failure);
    if (--running_ == 0) wake_.notify_one();
  }

  const std::size_t total_;
  const start begin_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::size_t running_ = 0;
  std::optional<core::error> failure_;
};

} // namespace dualpath::storage

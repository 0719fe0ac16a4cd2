// Where scan() of a store waits for the names its thread reads.
#pragma once

#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace dualpath::storage {

/// Names on their way from the store's thread to the caller of scan().
class name_inbox {
public:
  void expect() {
    std::lock_guard lock{mutex_};
    ++expected_;
  }
  void arrive(core::result<block_name> name) {
    std::lock_guard lock{mutex_};
    --expected_;
    if (name)
      names_.push_back(*name);
    else if (name.error().code == core::errc::io || name.error().code == core::errc::closed)
      failure_ = name.error();
    wake_.notify_one();
  }
  /// Waits until no more than `most` are expected, and takes what came.
  std::vector<block_name> take(std::size_t most) {
    std::unique_lock lock{mutex_};
    wake_.wait(lock, [&] { return expected_ <= most; });
    return std::exchange(names_, {});
  }
  std::optional<core::error> failure() {
    std::lock_guard lock{mutex_};
    return failure_;
  }

private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::size_t expected_ = 0;
  std::vector<block_name> names_;
  std::optional<core::error> failure_;
};

} // namespace dualpath::storage

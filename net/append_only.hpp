// A list that only grows, read without a lock: what transfers look up in it costs them no shared state.
// Arrays that were outgrown stay, because somebody may be reading them; all together they are as large as the
// last one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace dualpath::net {

/// `T` is a pointer or a number. One writer at a time, any number of readers.
template <class T>
class append_only {
public:
  /// Readers that see the new size see the entry.
  void push_back(T value) {
    auto size = size_.load(std::memory_order_relaxed);
    if (size == capacity_) grow(size);
    arrays_.back()[size] = value;
    size_.store(size + 1, std::memory_order_release);
  }
  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  /// `T{}` where there is no such entry.
  T at_or_none(std::size_t index) const {
    return index < size() ? current_.load(std::memory_order_acquire)[index] : T{};
  }

private:
  void grow(std::size_t size) {
    capacity_ = std::max<std::size_t>(16, 2 * capacity_);
    auto larger = std::make_unique<T[]>(capacity_);
    if (size != 0) std::copy_n(arrays_.back().get(), size, larger.get());
    arrays_.push_back(std::move(larger));
    current_.store(arrays_.back().get(), std::memory_order_release); // also to those that know an older size
  }

  std::atomic<std::size_t> size_{0};
  std::atomic<T*> current_{nullptr};
  std::size_t capacity_ = 0;
  std::vector<std::unique_ptr<T[]>> arrays_;
};

} // namespace dualpath::net

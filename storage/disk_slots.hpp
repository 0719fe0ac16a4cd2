// Keeps a number of operations at the disk, no more: coroutines wait here for a slot, first come first
// served. What comes before and after (opening, verifying, naming) needs none, so that a disk that completes
// many operations at once has the next ones to do while those are verified. For one thread.
#pragma once

#include <coroutine>
#include <deque>

namespace dualpath::storage {

class disk_slots {
public:
  /// Frees its slot when it goes; whoever waits longest runs before that returns.
  class [[nodiscard]] slot {
  public:
    explicit slot(disk_slots& of) : of_{of} {}
    slot(const slot&) = delete;
    slot& operator=(const slot&) = delete;
    ~slot() { of_.leave(); }

  private:
    disk_slots& of_;
  };

  class [[nodiscard]] entry {
  public:
    explicit entry(disk_slots& of) : of_{of} {}

    bool await_ready() const noexcept { return of_.free_ != 0; }
    void await_suspend(std::coroutine_handle<> waiter) { of_.waiting_.push_back(waiter); }
    slot await_resume() const noexcept {
      --of_.free_;
      return slot{of_};
    }

  private:
    disk_slots& of_;
  };

  explicit disk_slots(unsigned count) : free_{count} {}

  entry enter() { return entry{*this}; }

private:
  void leave() {
    ++free_;
    if (waiting_.empty()) return;
    auto next = waiting_.front();
    waiting_.pop_front();
    next.resume();
  }

  unsigned free_;
  std::deque<std::coroutine_handle<>> waiting_;
};

} // namespace dualpath::storage

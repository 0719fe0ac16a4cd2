// Copies of mapped memory that one core would take long over: a core moves a fraction of what the memory of a
// machine can, so others help. The caller copies as well and is not held up by helpers that come late.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace dualpath::net {

struct copy_part {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

/// As many as help noticeably, but never all cores this process may run on.
unsigned default_copy_helpers();

class copy_crew {
public:
  /// Taken by one core at a time, where parts are no longer: long beside what taking it costs, short enough
  /// that nobody waits for the last one for long.
  static constexpr std::uint64_t share_bytes = 512ULL << 10;

  /// Its threads are started by the first copy(), and are as nice as its caller.
  explicit copy_crew(unsigned helpers) : helpers_{helpers} {}
  ~copy_crew();
  copy_crew(const copy_crew&) = delete;
  copy_crew& operator=(const copy_crew&) = delete;

  /// Copies all parts, which do not overlap, past the caches. What it wrote is ordered before what the caller
  /// writes next. By one thread at a time.
  void copy(std::span<const copy_part> parts);
  /// Helpers that have been started; for its caller's thread.
  std::size_t started() const { return threads_.size(); }

private:
  /// One copy(): who takes which parts.
  struct round {
    std::span<const copy_part> parts;
    std::size_t share; ///< parts taken at a time
    std::size_t next = 0;
    unsigned at_work = 0; ///< helpers
  };

  void hire();
  void help();
  /// Takes and copies shares until there are none. Holds the lock whenever it does not copy.
  static void work(round& on, std::unique_lock<std::mutex>& lock);

  const unsigned helpers_;
  std::mutex mutex_;
  std::condition_variable begun_, left_;
  round* current_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

} // namespace dualpath::net

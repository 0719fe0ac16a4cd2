// File operations that never block a thread: one io_uring, used by one thread, awaited by coroutines.
// Operations asked for while completions are handled go to the kernel together, with the next wait.
//
// Results are the kernel's: zero or more on success, -errno on failure. Buffers, vectors and path names must
// stay until the operation completes. Only attach() and the functions after it belong to the ring's thread.
#pragma once

#include "core/result.hpp"

#include <coroutine>
#include <cstdint>
#include <deque>
#include <memory>

#include <sys/types.h>
#include <sys/uio.h>

struct io_uring;
struct io_uring_sqe;
struct statx;

namespace dualpath::storage {

class uring {
public:
  class [[nodiscard]] operation {
  public:
    explicit operation(io_uring_sqe* entry) : entry_{entry} {}
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) noexcept;
    int await_resume() const noexcept { return result_; }

  private:
    friend class uring;
    io_uring_sqe* entry_;
    std::coroutine_handle<> waiter_;
    int result_ = 0;
  };

  /// See next_turn().
  class [[nodiscard]] turn {
  public:
    explicit turn(uring& ring) : ring_{ring} {}

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { ring_.turns_.push_back(waiter); }
    void await_resume() const noexcept {}

  private:
    uring& ring_;
  };

  /// `depth`: the most operations that will ever be in flight.
  static core::result<std::unique_ptr<uring>> create(unsigned depth);
  ~uring();

  /// Makes the calling thread the ring's.
  void attach();
  /// Hands new operations to the kernel, sleeps until one completes and resumes the waiters of all that have.
  /// Then one of those who wait for their turn, for whom it does not sleep.
  void submit_and_wait();
  /// To be awaited before work that keeps the core busy. It begins when all that completions lead to has been
  /// handed to the kernel, one piece a call of submit_and_wait(): a device that has completed many operations
  /// at once has new ones to do meanwhile.
  turn next_turn() { return turn{*this}; }

  operation openat(int directory, const char* path, int flags, mode_t mode = 0);
  operation close(int file);
  operation read(int file, void* data, unsigned bytes);
  operation readv(int file, const iovec* parts, unsigned count, std::uint64_t offset);
  operation writev(int file, const iovec* parts, unsigned count, std::uint64_t offset);
  operation allocate(int file, std::uint64_t bytes); ///< sets the size of the file too
  operation datasync(int file);
  operation stat_size(int directory, const char* path, struct statx* to);
  operation renameat(int directory, const char* from, const char* to);
  operation unlinkat(int directory, const char* path);
  operation mkdirat(int directory, const char* path, mode_t mode);

private:
  uring();
  io_uring_sqe* next_entry();
  void enter(bool wait);
  bool resume_completed();

  std::unique_ptr<io_uring> ring_;
  std::deque<std::coroutine_handle<>> turns_;
};

} // namespace dualpath::storage

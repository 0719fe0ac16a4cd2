// Threads that help with the loops of compute devices. A token is some 150 short loops with a barrier after
// each; waking a sleeping thread for every one would cost as much as the work. So helpers watch for the next
// loop for some tens of microseconds while a device is inside an operation, and sleep otherwise: an idle
// process uses no time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dualpath::kernels {

/// Several devices may share a pool and call it at the same time.
class thread_pool {
public:
  /// `threads` counts the caller of parallel_for, which works too: 1 makes no thread.
  explicit thread_pool(std::uint32_t threads);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  std::uint32_t threads() const { return static_cast<std::uint32_t>(workers_.size()) + 1; }

  /// Helpers watch for loops while at least one of these lives.
  class busy_scope {
  public:
    explicit busy_scope(thread_pool& pool);
    ~busy_scope();
    busy_scope(const busy_scope&) = delete;
    busy_scope& operator=(const busy_scope&) = delete;

  private:
    thread_pool& pool_;
  };

  /// Runs body(i) once for every i below `count`, in any order and on any thread; returns when all are done.
  template <class Body>
  void parallel_for(std::uint32_t count, const Body& body) {
    if (count <= 1 || workers_.empty()) {
      for (std::uint32_t i = 0; i < count; ++i) body(i);
      return;
    }
    loop work{[](const void* context, std::uint32_t i) { (*static_cast<const Body*>(context))(i); }, &body,
              count};
    run(work);
  }

private:
  struct loop {
    void (*call)(const void* body, std::uint32_t index);
    const void* body;
    std::uint32_t count;
    std::atomic<std::uint32_t> next{0};
    /// Helpers inside; the owner leaves only when there are none, since the loop lies on its stack.
    std::atomic<std::uint32_t> helpers{0};

    void work() {
      for (auto i = next.fetch_add(1, std::memory_order_relaxed); i < count;
           i = next.fetch_add(1, std::memory_order_relaxed))
        call(body, i);
    }
  };

  void run(loop& work);
  void help();
  loop* claim();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<loop*> loops_;
  bool stopping_ = false;
  /// Rises with every new loop; watched without the lock.
  std::atomic<std::uint64_t> published_{0};
  std::atomic<std::uint32_t> busy_{0};
  std::uint32_t sleeping_ = 0;
};

} // namespace dualpath::kernels

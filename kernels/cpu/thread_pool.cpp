#include "kernels/cpu/thread_pool.hpp"

#include <algorithm>
#include <chrono>

namespace dualpath::kernels {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Watches `ready` for a while; gives way to other threads of the machine now and then. False: not ready in
/// time.
template <class Ready>
bool watch(const Ready& ready, std::chrono::microseconds patience) {
  auto until = std::chrono::steady_clock::now() + patience;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < until);
  return ready();
}

constexpr std::chrono::microseconds helper_patience{60};
constexpr std::chrono::microseconds owner_patience{30};

} // namespace

thread_pool::thread_pool(std::uint32_t threads) {
  for (std::uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { help(); });
}

thread_pool::~thread_pool() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

thread_pool::busy_scope::busy_scope(thread_pool& pool) : pool_{pool} { pool_.busy_.fetch_add(1); }
thread_pool::busy_scope::~busy_scope() { pool_.busy_.fetch_sub(1); }

void thread_pool::run(loop& work) {
  bool sleepers;
  {
    std::lock_guard lock{mutex_};
    loops_.push_back(&work);
    published_.fetch_add(1, std::memory_order_release);
    sleepers = sleeping_ > 0;
  }
  if (sleepers) wake_.notify_all();
  work.work();
  {
    std::lock_guard lock{mutex_};
    std::erase(loops_, &work);
  }
  auto left = [&] { return work.helpers.load(std::memory_order_acquire) == 0; };
  // A helper that lost its core may take milliseconds; then the core is better left to it.
  while (!watch(left, owner_patience)) std::this_thread::yield();
}

thread_pool::loop* thread_pool::claim() {
  for (auto* work : loops_)
    if (work->next.load(std::memory_order_relaxed) < work->count) {
      work->helpers.fetch_add(1, std::memory_order_relaxed);
      return work;
    }
  return nullptr;
}

void thread_pool::help() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    if (auto* work = claim()) {
      lock.unlock();
      work->work();
      work->helpers.fetch_sub(1, std::memory_order_release);
      lock.lock();
      continue;
    }
    auto seen = published_.load(std::memory_order_relaxed);
    if (busy_.load() > 0) {
      lock.unlock();
      auto news = watch([&] { return published_.load(std::memory_order_acquire) != seen; }, helper_patience);
      lock.lock();
      if (news || published_.load(std::memory_order_relaxed) != seen) continue;
    }
    ++sleeping_;
    wake_.wait(lock, [&] { return stopping_ || published_.load(std::memory_order_relaxed) != seen; });
    --sleeping_;
  }
}

} // namespace dualpath::kernels

#include "net/copy_crew.hpp"

#include "net/payload_access.hpp"
#include "net/stream_copy.hpp"

#include <algorithm>
#include <system_error>

namespace dualpath::net {

unsigned default_copy_helpers() {
  constexpr unsigned enough = 3;
  return std::min(enough, std::max(1U, std::thread::hardware_concurrency()) - 1);
}

copy_crew::~copy_crew() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  begun_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void copy_crew::copy(std::span<const copy_part> parts) {
  std::uint64_t total = 0;
  for (auto& part : parts) total += part.bytes;
  if (total == 0) return;
  auto shares = (total + share_bytes - 1) / share_bytes;
  round now{parts, std::max<std::size_t>(1, parts.size() / shares)};
  if (shares > 1 && parts.size() > 1) hire();
  std::unique_lock lock{mutex_};
  current_ = &now;
  begun_.notify_all();
  work(now, lock);
  current_ = nullptr;
  left_.wait(lock, [&] { return now.at_work == 0; });
}

void copy_crew::hire() {
  while (threads_.size() < helpers_) {
    try {
      threads_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      return; // no threads left: those there are do it
    }
  }
}

void copy_crew::help() {
  std::unique_lock lock{mutex_};
  for (;;) {
    begun_.wait(
        lock, [&] { return stopping_ || (current_ != nullptr && current_->next < current_->parts.size()); });
    if (stopping_) return;
    auto& on = *current_;
    ++on.at_work;
    work(on, lock);
    if (--on.at_work == 0) left_.notify_one();
  }
}

void copy_crew::work(round& on, std::unique_lock<std::mutex>& lock) {
  while (on.next < on.parts.size()) {
    auto taken = on.parts.subspan(on.next, std::min(on.share, on.parts.size() - on.next));
    on.next += taken.size();
    lock.unlock();
    {
      payload_access here;
      for (auto& part : taken) stream_copy(part.to, part.from, part.bytes);
    }
    lock.lock();
  }
}

} // namespace dualpath::net

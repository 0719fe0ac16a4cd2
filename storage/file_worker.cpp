#include "storage/file_worker.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace dualpath::storage {
namespace {

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};

thread_local file_worker* this_worker = nullptr;

/// A disk may complete all it has at once: while those requests are verified, as many more must be ready for
/// it.
unsigned requests_at(unsigned depth) { return 2 * depth; }

} // namespace

core::result<std::unique_ptr<file_worker>> file_worker::start(shared_parts& shared, unsigned depth) {
  auto ring = uring::create(requests_at(depth) + 1); // and the wake-up
  if (!ring) return ring.error();
  descriptor wake{eventfd(0, EFD_CLOEXEC)};
  if (!wake)
    return core::error{core::errc::io, std::string{"cannot make an eventfd for the block store ("}
                                           + std::strerror(errno)
                                           + "); raise the limit of open files (ulimit -n)"};
  return std::unique_ptr<file_worker>{new file_worker{shared, depth, std::move(*ring), std::move(wake)}};
}

file_worker::file_worker(shared_parts& shared, unsigned depth, std::unique_ptr<uring> ring, descriptor wake)
    : shared_{shared},
      wake_{std::move(wake)},
      ring_{std::move(ring)},
      files_{*ring_, shared.folder, shared.id, shared.sync, depth},
      pages_{requests_at(depth)},
      thread_{[this] { run(); }} {}

file_worker::~file_worker() {
  stop();
  thread_.join();
}

void file_worker::stop() {
  std::lock_guard lock{mutex_};
  if (std::exchange(stopping_, true)) return;
  wake_up();
}

file_worker* file_worker::current() { return this_worker; }

void file_worker::wake_up() {
  if (std::exchange(wake_sent_, true)) return;
  std::uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void file_worker::submit(file_request what) {
  load_.fetch_add(1, std::memory_order_relaxed);
  if (this_worker == this) {
    ready_.push_back(std::move(what)); // run() looks there before it sleeps
    return;
  }
  std::lock_guard lock{mutex_};
  incoming_.push_back(std::move(what));
  wake_up();
}

void file_worker::run() {
  this_worker = this;
  ring_->attach();
  listen();
  for (;;) {
    take_incoming();
    start_ready();
    if (closing_ && idle()) {
      take_incoming(); // what came while the last requests were refused
      if (ready_.empty()) return;
      continue;
    }
    ring_->submit_and_wait();
  }
}

detached file_worker::listen() {
  listening_ = true;
  while (!closing_) {
    co_await ring_->read(wake_.get(), &wake_count_, sizeof wake_count_);
    std::lock_guard lock{mutex_};
    wake_sent_ = false;
    closing_ = stopping_;
  }
  listening_ = false;
}

void file_worker::take_incoming() {
  std::lock_guard lock{mutex_};
  if (ready_.empty()) ready_.swap(incoming_);
  for (auto& one : incoming_) ready_.push_back(std::move(one));
  incoming_.clear();
}

void file_worker::start_ready() {
  auto refuse = [this](auto& one, core::error why) {
    one.on_done(std::move(why));
    load_.fetch_sub(1, std::memory_order_relaxed);
  };
  while (!ready_.empty()) {
    auto* refused = std::get_if<refused_request>(&ready_.front());
    if (!refused && !closing_ && pages_.empty()) return;
    auto next = std::move(ready_.front());
    ready_.pop_front();
    if (auto* known = std::get_if<refused_request>(&next)) {
      refuse(*known, std::move(known->why));
    } else if (closing_) {
      core::error why{core::errc::closed, "the block store in " + shared_.folder.path + " is closing"};
      std::visit([&](auto& one) { refuse(one, std::move(why)); }, next);
    } else {
      ++in_flight_;
      auto page = pages_.take();
      std::visit(overloaded{[](refused_request&) {}, [&](auto& what) { serve(std::move(what), page); }},
                 next);
    }
  }
}

void file_worker::ended(header_page page) {
  pages_.give_back(page);
  --in_flight_;
  load_.fetch_sub(1, std::memory_order_relaxed);
}

detached file_worker::serve(read_request what, header_page page) {
  auto outcome = co_await files_.read(what.key, what.payload, page);
  shared_.counters.count_read(outcome, files_.payload_bytes());
  what.on_done(std::move(outcome));
  ended(page);
}

detached file_worker::serve(write_request what, header_page page) {
  auto outcome = co_await files_.write(what.name, what.payload, page);
  shared_.counters.count_write(outcome, files_.payload_bytes());
  what.on_done(std::move(outcome));
  ended(page);
}

detached file_worker::serve(remove_request what, header_page page) {
  auto outcome = co_await files_.remove(what.key);
  if (!outcome) shared_.counters.count_failure(outcome.error().code);
  what.on_done(std::move(outcome));
  ended(page);
}

detached file_worker::serve(name_request what, header_page page) {
  auto outcome = co_await files_.read_name(what.key, what.size_bytes, page);
  if (!outcome && outcome.error().code != core::errc::not_found)
    shared_.counters.count_failure(outcome.error().code);
  what.on_done(std::move(outcome));
  ended(page);
}

} // namespace dualpath::storage

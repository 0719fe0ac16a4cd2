#include "storage/file_store.hpp"

#include "storage/atomic_counters.hpp"
#include "storage/block_files.hpp"
#include "storage/block_paths.hpp"
#include "storage/bounded_store.hpp"
#include "storage/buffer_check.hpp"
#include "storage/name_inbox.hpp"
#include "storage/store_folder.hpp"
#include "storage/task.hpp"
#include "storage/uring.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <sys/eventfd.h>

namespace dualpath::storage {
namespace {

constexpr unsigned max_queue_depth = 4096;

struct read_request {
  core::block_key key;
  std::span<std::byte> payload;
  block_store::done on_done;
};
struct write_request {
  block_name name;
  std::span<const std::byte> payload;
  block_store::done on_done;
};
struct remove_request {
  core::block_key key;
  block_store::done on_done;
};
struct name_request {
  core::block_key key;
  std::uint64_t size_bytes;
  std::function<void(core::result<block_name>)> on_done;
};
/// Refused when it was asked for; completes in its turn like the rest.
struct refused_request {
  core::error why;
  block_store::done on_done;
};
using request = std::variant<read_request, write_request, remove_request, name_request, refused_request>;

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};

/// A header page for every operation in flight. For one thread.
class page_pool {
public:
  explicit page_pool(unsigned count)
      : memory_{
          static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, std::size_t{count} * header_bytes)),
          std::free} {
    for (unsigned i = 0; i < count; ++i) free_.push_back(memory_.get() + std::size_t{i} * header_bytes);
  }
  header_page take() {
    auto* page = free_.back();
    free_.pop_back();
    return header_page{page, header_bytes};
  }
  void give_back(header_page page) { free_.push_back(page.data()); }
  bool empty() const { return free_.empty(); }

private:
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  std::vector<std::byte*> free_;
};

class file_store final : public block_store {
public:
  file_store(file_store_options options, store_folder folder, std::unique_ptr<uring> ring, descriptor wake)
      : options_{std::move(options)},
        folder_{std::move(folder)},
        wake_{std::move(wake)},
        ring_{std::move(ring)},
        files_{*ring_, folder_, {options_.model, options_.layout}, options_.keep == durability::power},
        pages_{options_.queue_depth},
        thread_{[this] { run(); }} {}

  ~file_store() override {
    {
      std::lock_guard lock{mutex_};
      stopping_ = true;
      wake_up();
    }
    thread_.join();
  }

  std::uint64_t payload_bytes() const override { return files_.payload_bytes(); }

  void read(const core::block_key& key, std::span<std::byte> payload, done on_done) override {
    if (auto fault = buffer_misfit(payload, payload_bytes()))
      submit(refused_request{std::move(*fault), std::move(on_done)});
    else
      submit(read_request{key, payload.first(padded_bytes(payload_bytes())), std::move(on_done)});
  }
  void write(const block_name& name, std::span<const std::byte> payload, done on_done) override {
    if (auto fault = buffer_misfit(payload, payload_bytes()))
      submit(refused_request{std::move(*fault), std::move(on_done)});
    else
      submit(write_request{name, payload.first(padded_bytes(payload_bytes())), std::move(on_done)});
  }
  void remove(const core::block_key& key, done on_done) override {
    submit(remove_request{key, std::move(on_done)});
  }
  core::result<void> scan(const std::function<void(const block_name&)>& visit) override;

  store_counters counters() const override { return counters_.snapshot(); }
  std::string describe() const override {
    return "blocks of " + std::to_string(payload_bytes()) + " bytes in " + folder_.path + " ("
           + folder_.file_system + ", " + (folder_.direct ? "direct I/O" : "through the page cache")
           + ", io_uring depth " + std::to_string(options_.queue_depth) + ")";
  }

private:
  void submit(request what);
  void wake_up(); ///< under the lock

  void run();
  detached listen();
  void take_incoming();
  void start_ready();
  detached serve(read_request what, header_page page);
  detached serve(write_request what, header_page page);
  detached serve(remove_request what, header_page page);
  detached serve(name_request what, header_page page);
  void refuse(request& what, core::error why);
  bool idle() const { return pages_in_use_ == 0 && ready_.empty() && !listening_; }

  const file_store_options options_;
  store_folder folder_;
  descriptor wake_; ///< an eventfd, always being read by the ring
  std::unique_ptr<uring> ring_;
  block_files files_;
  atomic_counters counters_;

  std::mutex mutex_;
  std::deque<request> incoming_;
  bool wake_sent_ = false;
  bool stopping_ = false;

  // Of the store's thread alone.
  page_pool pages_;
  unsigned pages_in_use_ = 0;
  std::deque<request> ready_;
  bool closing_ = false;
  bool listening_ = false;
  std::uint64_t wake_count_ = 0;

  std::thread thread_;
};

void file_store::wake_up() {
  if (std::exchange(wake_sent_, true)) return;
  std::uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void file_store::submit(request what) {
  std::lock_guard lock{mutex_};
  incoming_.push_back(std::move(what));
  wake_up();
}

void file_store::run() {
  ring_->attach();
  listen();
  for (;;) {
    take_incoming();
    start_ready();
    if (closing_ && idle()) {
      take_incoming(); // what completions asked for while the last requests were refused
      if (ready_.empty()) return;
      continue;
    }
    ring_->submit_and_wait();
  }
}

detached file_store::listen() {
  listening_ = true;
  while (!closing_) {
    co_await ring_->read(wake_.get(), &wake_count_, sizeof wake_count_);
    std::lock_guard lock{mutex_};
    wake_sent_ = false;
    closing_ = stopping_;
  }
  listening_ = false;
}

void file_store::take_incoming() {
  std::lock_guard lock{mutex_};
  if (ready_.empty()) ready_.swap(incoming_);
  for (auto& one : incoming_) ready_.push_back(std::move(one));
  incoming_.clear();
}

void file_store::start_ready() {
  while (!ready_.empty()) {
    auto* refused = std::get_if<refused_request>(&ready_.front());
    if (!refused && !closing_ && pages_.empty()) return;
    auto next = std::move(ready_.front());
    ready_.pop_front();
    if (auto* known = std::get_if<refused_request>(&next)) {
      known->on_done(std::move(known->why));
    } else if (closing_) {
      refuse(next, {core::errc::closed, "the block store in " + folder_.path + " is closing"});
    } else {
      ++pages_in_use_;
      auto page = pages_.take();
      std::visit(overloaded{[](refused_request&) {}, [&](auto& what) { serve(std::move(what), page); }},
                 next);
    }
  }
}

void file_store::refuse(request& what, core::error why) {
  std::visit([&](auto& one) { one.on_done(std::move(why)); }, what);
}

detached file_store::serve(read_request what, header_page page) {
  auto outcome = co_await files_.read(what.key, what.payload, page);
  counters_.count_read(outcome, payload_bytes());
  pages_.give_back(page);
  what.on_done(std::move(outcome));
  --pages_in_use_;
}

detached file_store::serve(write_request what, header_page page) {
  auto outcome = co_await files_.write(what.name, what.payload, page);
  counters_.count_write(outcome, payload_bytes());
  pages_.give_back(page);
  what.on_done(std::move(outcome));
  --pages_in_use_;
}

detached file_store::serve(remove_request what, header_page page) {
  auto outcome = co_await files_.remove(what.key);
  if (!outcome) counters_.count_failure(outcome.error().code);
  pages_.give_back(page);
  what.on_done(std::move(outcome));
  --pages_in_use_;
}

detached file_store::serve(name_request what, header_page page) {
  auto outcome = co_await files_.read_name(what.key, what.size_bytes, page);
  if (!outcome && outcome.error().code != core::errc::not_found)
    counters_.count_failure(outcome.error().code);
  pages_.give_back(page);
  what.on_done(std::move(outcome));
  --pages_in_use_;
}

core::result<void> file_store::scan(const std::function<void(const block_name&)>& visit) {
  name_inbox inbox;
  auto deliver = [&](std::size_t most) {
    for (auto& name : inbox.take(most)) visit(name);
  };
  int rc = walk_blocks(folder_.fd.get(), [&](const core::block_key& key, std::uint64_t file_bytes) {
    inbox.expect();
    submit(
        name_request{key, file_bytes, [&](core::result<block_name> name) { inbox.arrive(std::move(name)); }});
    deliver(2 * std::size_t{options_.queue_depth});
  });
  deliver(0);
  if (rc != 0)
    return core::error{core::errc::io,
                       "cannot list the blocks in " + folder_.path + ": " + std::strerror(rc)};
  if (auto failure = inbox.failure()) return *failure;
  return {};
}

} // namespace

core::result<std::unique_ptr<block_store>> open_file_store(file_store_options options) {
  if (options.layout.full_block_bytes() == 0)
    return core::error{core::errc::invalid_argument,
                       "the block layout has no bytes (" + std::to_string(options.layout.layers)
                           + " layers of " + std::to_string(options.layout.block_tokens) + " tokens of "
                           + std::to_string(options.layout.token_bytes)
                           + " bytes); every part must be at least 1"};
  if (options.queue_depth == 0 || options.queue_depth > max_queue_depth)
    return core::error{core::errc::invalid_argument,
                       "the block store's queue depth is " + std::to_string(options.queue_depth)
                           + "; choose one from 1 to " + std::to_string(max_queue_depth)};
  auto folder = open_store_folder(options.directory, options.model, options.layout, options.direct_io);
  if (!folder) return folder.error();
  auto ring = uring::create(options.queue_depth + 1); // and the wake-up
  if (!ring) return ring.error();
  descriptor wake{eventfd(0, EFD_CLOEXEC)};
  if (!wake)
    return core::error{core::errc::io, std::string{"cannot make an eventfd for the block store ("}
                                           + std::strerror(errno)
                                           + "); raise the limit of open files (ulimit -n)"};
  auto capacity_bytes = options.capacity_bytes;
  auto block_bytes = header_bytes + padded_bytes(options.layout.full_block_bytes());
  auto store =
      std::make_unique<file_store>(std::move(options), std::move(*folder), std::move(*ring), std::move(wake));
  if (capacity_bytes != 0) return bound_store(std::move(store), block_bytes, capacity_bytes);
  return std::unique_ptr<block_store>{std::move(store)};
}

} // namespace dualpath::storage

// One thread of a file store with its io_uring: keeps `depth` operations at the disk, in the order they came,
// while as many other requests are opened, verified or named; the rest wait. A store has a few of these, so
// that one copies or verifies a block while another does so too.
//
// submit() may be called from any thread. What a completion asks for stays with the worker whose thread it
// runs on: no wake-up, and nothing is lost when the store closes. Destruction waits for what the kernel has
// begun and completes the rest with `closed`.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/result.hpp"
#include "storage/atomic_counters.hpp"
#include "storage/block_files.hpp"
#include "storage/block_store.hpp"
#include "storage/descriptor.hpp"
#include "storage/store_folder.hpp"
#include "storage/task.hpp"
#include "storage/uring.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <variant>
#include <vector>

namespace dualpath::storage {

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
using file_request = std::variant<read_request, write_request, remove_request, name_request, refused_request>;

/// A header page for every request that has begun. For one thread.
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

class file_worker {
public:
  /// What all workers of a store share; outlives them.
  struct shared_parts {
    store_folder folder;
    block_files::identity id;
    bool sync = false;
    atomic_counters counters;
  };

  /// Errors: unsupported (io_uring), io (out of descriptors).
  static core::result<std::unique_ptr<file_worker>> start(shared_parts& shared, unsigned depth);
  ~file_worker();

  void submit(file_request what);
  /// Begins to close, without waiting.
  void stop();
  /// The worker whose thread this is; none on other threads.
  static file_worker* current();
  bool serves(const shared_parts& store) const { return &store == &shared_; }
  /// Requests that have not completed.
  std::size_t load() const { return load_.load(std::memory_order_relaxed); }

private:
  file_worker(shared_parts& shared, unsigned depth, std::unique_ptr<uring> ring, descriptor wake);

  void run();
  detached listen();
  void take_incoming();
  void start_ready();
  detached serve(read_request what, header_page page);
  detached serve(write_request what, header_page page);
  detached serve(remove_request what, header_page page);
  detached serve(name_request what, header_page page);
  void ended(header_page page);
  bool idle() const { return in_flight_ == 0 && ready_.empty() && !listening_; }
  void wake_up(); ///< under the lock

  shared_parts& shared_;
  descriptor wake_; ///< an eventfd, always being read by the ring
  std::unique_ptr<uring> ring_;
  block_files files_;
  std::atomic<std::size_t> load_ = 0;

  std::mutex mutex_;
  std::deque<file_request> incoming_;
  bool wake_sent_ = false;
  bool stopping_ = false;

  // Of the worker's thread alone.
  page_pool pages_;
  unsigned in_flight_ = 0;
  std::deque<file_request> ready_;
  bool closing_ = false;
  bool listening_ = false;
  std::uint64_t wake_count_ = 0;

  std::thread thread_;
};

} // namespace dualpath::storage

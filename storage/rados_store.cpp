#include "storage/rados_store.hpp"

#include "storage/atomic_counters.hpp"
#include "storage/block_check.hpp"
#include "storage/block_paths.hpp"
#include "storage/bounded_store.hpp"
#include "storage/buffer_check.hpp"
#include "storage/name_inbox.hpp"
#include "storage/rados_pool.hpp"

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dualpath::storage {
namespace {

constexpr unsigned max_queue_depth = 4096;

std::string object_of(const core::block_key& key) { return core::to_hex(key) + ".kv"; }

class rados_store final : public block_store {
public:
  rados_store(rados_store_options options, std::unique_ptr<rados_pool> pool);
  ~rados_store() override;

  std::uint64_t payload_bytes() const override { return options_.layout.full_block_bytes(); }
  void read(const core::block_key& key, std::span<std::byte> payload, done on_done) override;
  void write(const block_name& name, std::span<const std::byte> payload, done on_done) override;
  void remove(const core::block_key& key, done on_done) override;
  core::result<void> scan(const std::function<void(const block_name&)>& visit) override;
  store_counters counters() const override { return counters_.snapshot(); }
  std::string describe() const override {
    return "blocks of " + std::to_string(payload_bytes()) + " bytes in " + pool_->name() + " ("
           + std::to_string(options_.queue_depth) + " in flight)";
  }

private:
  /// Waits for its turn; `start` runs on the store's thread with a page of its own.
  struct request {
    std::function<void(header_page)> start;
    std::function<void(core::error)> refuse;
  };
  using header_result = core::result<block_header>;

  void submit(request what);
  void refuse_later(core::error why, done on_done);
  /// Called by librados: goes on with an operation on the store's thread.
  void land(std::function<void()> rest);
  void run();
  void serve(std::deque<std::function<void()>>& landed, std::deque<request>& started, bool stopping);

  void start_read(const core::block_key& key, std::span<std::byte> payload, header_page page,
                  std::function<void(header_result)> on_done);
  void verify(const core::block_key& key, std::span<std::byte> payload, header_page page,
              rados_outcome outcome, const std::function<void(header_result)>& on_done);
  void start_write(const block_name& name, std::span<const std::byte> payload, header_page page,
                   const done& on_done);
  void start_remove(const core::block_key& key, header_page page, const done& on_done);
  /// Gives the page back, then tells.
  void end(header_page page, const std::function<void()>& tell);

  core::error failure(int code, const char* verb, const core::block_key& key) const;

  const rados_store_options options_;
  atomic_counters counters_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<request> waiting_;
  std::deque<std::function<void()>> landed_;
  bool stopping_ = false;
  std::vector<std::byte*> free_pages_; ///< one for every operation in flight
  std::unique_ptr<std::byte, void (*)(void*)> pages_;

  std::unique_ptr<rados_pool> pool_; ///< its threads call land()
  std::thread thread_;
};

rados_store::rados_store(rados_store_options options, std::unique_ptr<rados_pool> pool)
    : options_{std::move(options)},
      pages_{static_cast<std::byte*>(
                 std::aligned_alloc(buffer_alignment, std::size_t{options_.queue_depth} * header_bytes)),
             std::free},
      pool_{std::move(pool)} {
  for (unsigned i = 0; i < options_.queue_depth; ++i)
    free_pages_.push_back(pages_.get() + std::size_t{i} * header_bytes);
  thread_ = std::thread{[this] { run(); }};
}

rados_store::~rados_store() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

void rados_store::submit(request what) {
  std::lock_guard lock{mutex_};
  waiting_.push_back(std::move(what));
  wake_.notify_one();
}

void rados_store::land(std::function<void()> rest) {
  std::lock_guard lock{mutex_};
  landed_.push_back(std::move(rest));
  wake_.notify_one();
}

void rados_store::refuse_later(core::error why, done on_done) {
  land([why = std::move(why), on_done = std::move(on_done)] { on_done(why); });
}

void rados_store::run() {
  std::deque<std::function<void()>> landed;
  std::deque<request> started;
  for (;;) {
    bool stopping = false;
    {
      std::unique_lock lock{mutex_};
      auto idle = [&] { return free_pages_.size() == options_.queue_depth; };
      auto startable = [&] { return !waiting_.empty() && (stopping_ || !free_pages_.empty()); };
      wake_.wait(lock, [&] { return !landed_.empty() || startable() || (stopping_ && idle()); });
      if (landed_.empty() && waiting_.empty() && stopping_ && idle()) return;
      stopping = stopping_;
      landed.swap(landed_);
      if (stopping) started.swap(waiting_);
      for (auto pages = free_pages_.size(); pages > 0 && !waiting_.empty(); --pages) {
        started.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    serve(landed, started, stopping);
  }
}

void rados_store::serve(std::deque<std::function<void()>>& landed, std::deque<request>& started,
                        bool stopping) {
  for (auto& rest : landed) rest();
  landed.clear();
  for (auto& one : started) {
    if (stopping) {
      one.refuse({core::errc::closed, "the block store in " + pool_->name() + " is closing"});
      continue;
    }
    std::byte* page = nullptr;
    {
      std::lock_guard lock{mutex_};
      page = free_pages_.back();
      free_pages_.pop_back();
    }
    one.start(header_page{page, header_bytes});
  }
  started.clear();
}

void rados_store::end(header_page page, const std::function<void()>& tell) {
  tell();
  std::lock_guard lock{mutex_};
  free_pages_.push_back(page.data());
}

core::error rados_store::failure(int code, const char* verb, const core::block_key& key) const {
  auto what = std::string{verb} + " block " + core::to_hex(key) + " in " + pool_->name() + ": ";
  switch (-code) {
  case ENOENT:
    return {core::errc::not_found, what + "it is not stored"};
  case ENOSPC:
  case EDQUOT:
    return {core::errc::no_space, what + "the pool is full; remove blocks or add OSDs"};
  case ETIMEDOUT:
    return {core::errc::io, what + "no answer in time; see `ceph status`"};
  default:
    return {core::errc::io, what + std::strerror(-code)};
  }
}

void rados_store::read(const core::block_key& key, std::span<std::byte> payload, done on_done) {
  if (auto fault = buffer_misfit(payload, payload_bytes())) return refuse_later(*fault, std::move(on_done));
  auto whole = payload.first(padded_bytes(payload_bytes()));
  submit({[=, this](header_page page) {
            start_read(key, whole, page, [=, this](header_result header) {
              auto outcome = header ? core::result<void>{} : core::result<void>{header.error()};
              counters_.count_read(outcome, payload_bytes());
              on_done(std::move(outcome));
            });
          },
          on_done});
}

void rados_store::start_read(const core::block_key& key, std::span<std::byte> payload, header_page page,
                             std::function<void(header_result)> on_done) {
  pool_->read(object_of(key), page, payload, [=, this](rados_outcome outcome) {
    land([=, this] { verify(key, payload, page, outcome, on_done); });
  });
}

void rados_store::verify(const core::block_key& key, std::span<std::byte> payload, header_page page,
                         rados_outcome outcome, const std::function<void(header_result)>& on_done) {
  if (outcome.code < 0) return end(page, [&] { on_done(failure(outcome.code, "read", key)); });
  auto header =
      check_block({options_.model, options_.layout, pool_->name()}, key, outcome.read_bytes, page, payload);
  if (header && outcome.object_bytes < header_bytes + padded_bytes(payload_bytes()))
    header = bad_block(core::errc::corrupt, key, pool_->name(), "is cut short");
  if (header || header.error().code != core::errc::corrupt) return end(page, [&] { on_done(header); });
  // Whether it was removed or replaced meanwhile makes no difference to the reader.
  pool_->remove_version(object_of(key), outcome.version, [=, this](rados_outcome) {
    land([=, this] { end(page, [&] { on_done(header); }); });
  });
}

void rados_store::write(const block_name& name, std::span<const std::byte> payload, done on_done) {
  if (auto fault = buffer_misfit(payload, payload_bytes())) return refuse_later(*fault, std::move(on_done));
  auto whole = payload.first(padded_bytes(payload_bytes()));
  submit({[=, this](header_page page) { start_write(name, whole, page, on_done); }, on_done});
}

void rados_store::start_write(const block_name& name, std::span<const std::byte> payload, header_page page,
                              const done& on_done) {
  encode_header({.name = name,
                 .model = options_.model,
                 .layout = options_.layout,
                 .payload_bytes = payload_bytes(),
                 .payload_checksum = checksum(payload)},
                page);
  pool_->create(object_of(name.key), page, payload, [=, this](rados_outcome outcome) {
    land([=, this] {
      bool stored = outcome.code == 0 || outcome.code == -EEXIST;
      auto result =
          stored ? core::result<void>{} : core::result<void>{failure(outcome.code, "write", name.key)};
      counters_.count_write(result, payload_bytes());
      end(page, [&] { on_done(std::move(result)); });
    });
  });
}

void rados_store::remove(const core::block_key& key, done on_done) {
  submit({[=, this](header_page page) { start_remove(key, page, on_done); }, on_done});
}

void rados_store::start_remove(const core::block_key& key, header_page page, const done& on_done) {
  pool_->remove(object_of(key), [=, this](rados_outcome outcome) {
    land([=, this] {
      bool gone = outcome.code == 0 || outcome.code == -ENOENT;
      auto result = gone ? core::result<void>{} : core::result<void>{failure(outcome.code, "remove", key)};
      if (!gone) counters_.count_failure(result.error().code);
      end(page, [&] { on_done(std::move(result)); });
    });
  });
}

core::result<void> rados_store::scan(const std::function<void(const block_name&)>& visit) {
  name_inbox inbox;
  auto deliver = [&](std::size_t most) {
    for (auto& name : inbox.take(most)) visit(name);
  };
  int rc = pool_->list([&](std::string_view object) {
    auto key = key_of_file(object);
    if (!key) return;
    inbox.expect();
    auto arrive = [&](core::result<block_name> name) {
      if (!name && name.error().code != core::errc::not_found) counters_.count_failure(name.error().code);
      inbox.arrive(std::move(name));
    };
    submit({[=, this, key = *key](header_page page) {
              start_read(key, {}, page, [=](header_result header) {
                arrive(header ? core::result<block_name>{header->name}
                              : core::result<block_name>{header.error()});
              });
            },
            arrive});
    deliver(2 * std::size_t{options_.queue_depth});
  });
  deliver(0);
  if (rc != 0)
    return core::error{core::errc::io,
                       "cannot list the blocks in " + pool_->name() + ": " + std::strerror(-rc)};
  if (auto failed = inbox.failure()) return *failed;
  return {};
}

} // namespace

core::result<std::unique_ptr<block_store>> open_rados_store(rados_store_options options) {
  auto bad = [](std::string text) { return core::error{core::errc::invalid_argument, std::move(text)}; };
  if (options.layout.full_block_bytes() == 0)
    return bad("the block layout has no bytes (" + std::to_string(options.layout.layers) + " layers of "
               + std::to_string(options.layout.block_tokens) + " tokens of "
               + std::to_string(options.layout.token_bytes) + " bytes); every part must be at least 1");
  if (options.queue_depth == 0 || options.queue_depth > max_queue_depth)
    return bad("the block store's queue depth is " + std::to_string(options.queue_depth)
               + "; choose one from 1 to " + std::to_string(max_queue_depth));
  auto pool = rados_pool::open(options, "dualpath/" + model_folder(options.model, options.layout));
  if (!pool) return pool.error();
  auto capacity_bytes = options.capacity_bytes;
  auto block_bytes = header_bytes + padded_bytes(options.layout.full_block_bytes());
  auto store = std::make_unique<rados_store>(std::move(options), std::move(*pool));
  if (capacity_bytes != 0) return bound_store(std::move(store), block_bytes, capacity_bytes);
  return std::unique_ptr<block_store>{std::move(store)};
}

} // namespace dualpath::storage

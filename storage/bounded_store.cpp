#include "storage/bounded_store.hpp"

#include "storage/block_directory.hpp"

#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace dualpath::storage {
namespace {

class bounded_store final : public block_store {
public:
  bounded_store(std::unique_ptr<block_store> inner, std::size_t capacity_blocks)
      : capacity_blocks_{capacity_blocks}, owned_{std::move(inner)}, inner_{*owned_} {}

  ~bounded_store() override {
    std::deque<waiting_write> left;
    {
      std::lock_guard lock{mutex_};
      closing_ = true;
      left.swap(waiting_);
    }
    for (auto& one : left) one.on_done(core::error{core::errc::closed, "the block store is closing"});
    owned_.reset(); // completes everything it was given, and what those completions ask for
  }

  core::result<void> load() {
    if (auto scanned = inner_.scan([&](const block_name& name) { directory_.insert(name); }); !scanned)
      return scanned;
    std::lock_guard lock{mutex_};
    make_room(0);
    return {};
  }

  std::uint64_t payload_bytes() const override { return inner_.payload_bytes(); }
  store_counters counters() const override { return inner_.counters(); }
  core::result<void> scan(const std::function<void(const block_name&)>& visit) override {
    return inner_.scan(visit);
  }
  std::string describe() const override {
    return inner_.describe() + ", at most " + std::to_string(capacity_blocks_) + " blocks";
  }

  void read(const core::block_key& key, std::span<std::byte> payload, done on_done) override;
  void write(const block_name& name, std::span<const std::byte> payload, done on_done) override;
  void remove(const core::block_key& key, done on_done) override;
  void on_evicted(std::function<void(const core::block_key&)> tell) override {
    std::lock_guard lock{mutex_};
    tell_evicted_ = std::move(tell);
  }

private:
  struct waiting_write {
    block_name name;
    std::span<const std::byte> payload;
    done on_done;
  };

  // Under the lock.
  bool make_room(std::size_t blocks);
  void evict(const core::block_key& key);
  std::size_t occupied() const { return directory_.size() + new_blocks_; }
  bool admit(const block_name& name);
  void hold(const block_name& name);
  void release(const block_name& name);

  void removed(const core::block_key& key);
  void start_waiting();
  void start(waiting_write what, bool is_new);

  const std::size_t capacity_blocks_;
  std::mutex mutex_;
  block_directory directory_;
  std::size_t new_blocks_ = 0; ///< being written
  std::size_t active_ = 0;     ///< reads and writes in flight
  std::deque<waiting_write> waiting_;
  std::multiset<core::block_key> removing_; ///< removals in flight: still on the medium
  std::function<void(const core::block_key&)> tell_evicted_;
  bool closing_ = false;
  std::unique_ptr<block_store> owned_;
  block_store& inner_; ///< stays valid for completions while owned_ is closing
};

void bounded_store::evict(const core::block_key& key) {
  directory_.erase(key);
  removing_.insert(key);
  if (tell_evicted_) tell_evicted_(key);
  // One that cannot be removed is found by the next opening.
  inner_.remove(key, [this, key](core::result<void>) { removed(key); });
}

void bounded_store::removed(const core::block_key& key) {
  {
    std::lock_guard lock{mutex_};
    removing_.erase(removing_.find(key));
  }
  start_waiting();
}

/// Gives up blocks until `blocks` more fit; false when what is left is in use.
bool bounded_store::make_room(std::size_t blocks) {
  while (occupied() + blocks > capacity_blocks_) {
    auto victim = directory_.eviction_candidate();
    if (!victim) return false;
    evict(*victim);
  }
  return true;
}

/// A block that is being written must not be taken, nor its parent, whose child it is about to be.
void bounded_store::hold(const block_name& name) {
  directory_.pin({&name.key, 1});
  if (name.depth > 0) directory_.pin({&name.parent, 1});
}
void bounded_store::release(const block_name& name) {
  directory_.unpin({&name.key, 1});
  if (name.depth > 0) directory_.unpin({&name.parent, 1});
}

/// Makes room for a block and holds it; false when it has to wait.
bool bounded_store::admit(const block_name& name) {
  // Its removal could overtake the write.
  if (removing_.contains(name.key)) return false;
  hold(name);
  if (directory_.contains(name.key)) return true;
  auto room = make_room(1);
  if (!room && active_ == 0) {
    // Nothing in flight will ever release a block: the store is so small that the parent itself has to go.
    release(name);
    make_room(1);
    hold(name);
    room = true;
  }
  if (room && occupied() + removing_.size() < capacity_blocks_) return true;
  release(name);
  return false;
}

void bounded_store::read(const core::block_key& key, std::span<std::byte> payload, done on_done) {
  {
    std::lock_guard lock{mutex_};
    directory_.touch({&key, 1});
    directory_.pin({&key, 1});
    ++active_;
  }
  inner_.read(key, payload, [this, key, on_done = std::move(on_done)](core::result<void> outcome) {
    bool gone =
        !outcome
        && (outcome.error().code == core::errc::not_found || outcome.error().code == core::errc::corrupt);
    {
      std::lock_guard lock{mutex_};
      if (gone) directory_.erase(key);
      directory_.unpin({&key, 1});
      --active_;
    }
    on_done(std::move(outcome));
    start_waiting();
  });
}

void bounded_store::write(const block_name& name, std::span<const std::byte> payload, done on_done) {
  {
    std::unique_lock lock{mutex_};
    if (closing_) {
      lock.unlock();
      return inner_.write(name, payload, std::move(on_done));
    }
    waiting_.push_back({name, payload, std::move(on_done)});
  }
  start_waiting();
}

void bounded_store::remove(const core::block_key& key, done on_done) {
  {
    std::lock_guard lock{mutex_};
    directory_.erase(key);
    removing_.insert(key);
  }
  inner_.remove(key, [this, key, on_done = std::move(on_done)](core::result<void> outcome) {
    on_done(std::move(outcome));
    removed(key);
  });
}

void bounded_store::start_waiting() {
  for (;;) {
    waiting_write next;
    bool is_new = false;
    {
      std::lock_guard lock{mutex_};
      if (closing_ || waiting_.empty() || !admit(waiting_.front().name)) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      is_new = !directory_.contains(next.name.key);
      if (is_new) ++new_blocks_;
      ++active_;
    }
    start(std::move(next), is_new);
  }
}

void bounded_store::start(waiting_write what, bool is_new) {
  auto finish = [this, name = what.name, is_new,
                 on_done = std::move(what.on_done)](core::result<void> outcome) {
    {
      std::lock_guard lock{mutex_};
      if (is_new) --new_blocks_;
      if (outcome) directory_.insert(name);
      release(name);
      --active_;
    }
    on_done(std::move(outcome));
    start_waiting();
  };
  inner_.write(what.name, what.payload, std::move(finish));
}

} // namespace

core::result<std::unique_ptr<block_store>>
bound_store(std::unique_ptr<block_store> inner, std::uint64_t block_bytes, std::uint64_t capacity_bytes) {
  auto blocks = capacity_bytes / block_bytes;
  if (blocks == 0)
    return core::error{core::errc::invalid_argument, "the block store's capacity of "
                                                         + std::to_string(capacity_bytes)
                                                         + " bytes has no room for a block of "
                                                         + std::to_string(block_bytes) + " bytes; raise it"};
  auto store = std::make_unique<bounded_store>(std::move(inner), blocks);
  if (auto loaded = store->load(); !loaded) return loaded.error();
  return std::unique_ptr<block_store>{std::move(store)};
}

} // namespace dualpath::storage

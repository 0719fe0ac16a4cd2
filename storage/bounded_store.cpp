#include "storage/bounded_store.hpp"

#include "core/clock.hpp"
#include "storage/block_directory.hpp"
#include "storage/ledger_view.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dualpath::storage {
namespace {

class bounded_store final : public block_store {
public:
  bounded_store(std::unique_ptr<block_store> inner, std::size_t capacity_blocks,
                std::unique_ptr<block_ledger> ledger)
      : capacity_blocks_{capacity_blocks},
        owned_{std::move(inner)},
        inner_{*owned_},
        ledger_{std::move(ledger)} {}
  ~bounded_store() override;

  core::result<void> load();

  std::uint64_t payload_bytes() const override { return inner_.payload_bytes(); }
  store_counters counters() const override { return inner_.counters(); }
  core::result<void> scan(const std::function<void(const block_name&)>& visit) override {
    return inner_.scan(visit);
  }
  std::string describe() const override {
    return inner_.describe() + ", at most " + std::to_string(capacity_blocks_) + " blocks"
           + (ledger_ ? ", counted with other processes" : ", counted by this process alone");
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

  struct admitted_write {
    waiting_write what;
    bool is_new = false;
  };

  // Under the lock.
  bool make_room(std::size_t blocks);
  void evict(const core::block_key& key);
  bool admit(const block_name& name);
  void hold(const block_name& name);
  void release(const block_name& name);
  std::optional<admitted_write> admit_next();
  void give_up(const core::block_key& key);
  void note(ledger_entry entry);
  std::size_t occupied() const;
  ledger_view::own_work own_work() const { return {writing_, removing_}; }

  void remove_now(const core::block_key& key);
  void removed(const core::block_key& key);
  void start_waiting();
  void start(admitted_write one);

  // With a ledger.
  core::result<void> set_up_ledger();
  void keep_books();
  std::optional<block_ledger::turn> take_turn();
  void settle(block_ledger::turn turn);
  core::result<void> publish(std::vector<ledger_entry>& entries);
  void refuse(admitted_write one, const core::error& why);

  const std::size_t capacity_blocks_;
  std::mutex mutex_;
  block_directory directory_;
  std::multimap<core::block_key, block_name> writing_; ///< on their way to the medium
  std::multimap<core::block_key, bool> reading_;       ///< whether the block was stored anew meanwhile
  std::size_t active_ = 0;                             ///< reads and writes in flight
  std::deque<waiting_write> waiting_;
  std::multiset<core::block_key> removing_; ///< removals in flight: still on the medium
  std::function<void(const core::block_key&)> tell_evicted_;
  bool closing_ = false;
  std::unique_ptr<block_store> owned_;
  block_store& inner_; ///< stays valid for completions while owned_ is closing

  std::unique_ptr<block_ledger> ledger_; ///< none: nobody else counts; fixed once loaded
  ledger_view others_{directory_};
  std::vector<ledger_entry> notes_;        ///< for the ledger
  std::set<core::block_key> used_;         ///< likewise; told when there is something else to tell
  std::vector<core::block_key> to_remove_; ///< once the ledger says so
  core::duration without_news_{0};         ///< while writes wait
  std::condition_variable wake_;
  bool asked_ = false, over_ = false; ///< of the bookkeeper
  std::thread bookkeeper_;
};

bounded_store::~bounded_store() {
  std::deque<waiting_write> left;
  {
    std::lock_guard lock{mutex_};
    closing_ = over_ = true;
    left.swap(waiting_);
  }
  wake_.notify_one();
  if (bookkeeper_.joinable()) bookkeeper_.join();
  for (auto& one : left) one.on_done(core::error{core::errc::closed, "the block store is closing"});
  for (auto& key : std::exchange(to_remove_, {})) remove_now(key);
  owned_.reset(); // completes everything it was given, and what those completions ask for
  if (ledger_)
    if (auto turn = take_turn()) settle(std::move(*turn));
}

core::result<void> bounded_store::load() {
  if (ledger_) {
    if (auto done = set_up_ledger(); !done) return done;
  } else {
    auto scanned = inner_.scan([&](const block_name& name) { directory_.insert(name); });
    if (!scanned) return scanned;
  }
  std::unique_lock lock{mutex_};
  make_room(0);
  asked_ = true;
  if (ledger_) bookkeeper_ = std::thread{[this] { keep_books(); }};
  return {};
}

void bounded_store::evict(const core::block_key& key) {
  directory_.erase(key);
  if (tell_evicted_) tell_evicted_(key);
  give_up(key);
}

void bounded_store::give_up(const core::block_key& key) {
  removing_.insert(key);
  if (!ledger_) return remove_now(key);
  note({ledger_change::leaving, key, {}});
  to_remove_.push_back(key);
}

void bounded_store::note(ledger_entry entry) {
  if (ledger_) notes_.push_back(entry);
}

void bounded_store::remove_now(const core::block_key& key) {
  // One that cannot be removed is found by the next opening.
  inner_.remove(key, [this, key](core::result<void>) { removed(key); });
}

void bounded_store::removed(const core::block_key& key) {
  {
    std::lock_guard lock{mutex_};
    removing_.erase(removing_.find(key));
    note({ledger_change::gone, key, {}});
  }
  start_waiting();
}

/// A block that is being written takes its space, known or not: it may be removed meanwhile.
std::size_t bounded_store::occupied() const {
  auto blocks = directory_.size();
  for (auto each = writing_.begin(); each != writing_.end(); each = writing_.upper_bound(each->first))
    if (!directory_.contains(each->first)) ++blocks;
  return blocks;
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
  if (removing_.contains(name.key) || others_.is_leaving(name.key)) return false;
  hold(name);
  if (directory_.contains(name.key)) return true;
  auto room = make_room(1);
  if (!room && active_ == 0 && !others_.has_unfinished()) {
    // Nothing in flight will ever release a block: the store is so small that the parent itself has to go.
    release(name);
    make_room(1);
    hold(name);
    room = true;
  }
  if (room && occupied() + removing_.size() + others_.leaving() < capacity_blocks_) return true;
  release(name);
  return false;
}

void bounded_store::read(const core::block_key& key, std::span<std::byte> payload, done on_done) {
  decltype(reading_)::iterator place;
  {
    std::lock_guard lock{mutex_};
    directory_.touch({&key, 1});
    directory_.pin({&key, 1});
    if (ledger_) used_.insert(key);
    place = reading_.emplace(key, false);
    ++active_;
  }
  inner_.read(key, payload, [this, place, on_done = std::move(on_done)](core::result<void> outcome) {
    auto failed_with = [&](core::errc code) { return !outcome && outcome.error().code == code; };
    // One that others reserved may be on its way: it keeps its space.
    bool gone = failed_with(core::errc::corrupt) || (!ledger_ && failed_with(core::errc::not_found));
    {
      std::lock_guard lock{mutex_};
      auto [key, overtaken] = *place;
      reading_.erase(place);
      if (gone && !overtaken && directory_.erase(key)) note({ledger_change::gone, key, {}});
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

/// The next waiting write that fits, with its space taken.
std::optional<bounded_store::admitted_write> bounded_store::admit_next() {
  if (closing_ || waiting_.empty() || !admit(waiting_.front().name)) return {};
  admitted_write next{std::move(waiting_.front()), false};
  waiting_.pop_front();
  auto& name = next.what.name;
  next.is_new = !directory_.contains(name.key);
  writing_.emplace(name.key, name);
  if (next.is_new) note(entry_of(ledger_change::reserved, name));
  ++active_;
  return next;
}

void bounded_store::start_waiting() {
  if (ledger_) {
    {
      std::lock_guard lock{mutex_};
      constexpr std::size_t worth_a_turn = 1024;
      if (waiting_.empty() && notes_.empty() && used_.size() < worth_a_turn) return;
      asked_ = true;
    }
    wake_.notify_one();
    return;
  }
  for (;;) {
    std::optional<admitted_write> next;
    {
      std::lock_guard lock{mutex_};
      next = admit_next();
    }
    if (!next) return;
    start(std::move(*next));
  }
}

void bounded_store::start(admitted_write one) {
  auto finish = [this, name = one.what.name, is_new = one.is_new,
                 on_done = std::move(one.what.on_done)](core::result<void> outcome) {
    {
      std::lock_guard lock{mutex_};
      writing_.erase(writing_.find(name.key));
      if (outcome) {
        directory_.insert(name);
        // What they find missing is what was there before.
        for (auto [read, end] = reading_.equal_range(name.key); read != end; ++read) read->second = true;
        note(entry_of(ledger_change::stored, name));
      } else if (is_new) {
        note({ledger_change::gone, name.key, {}});
      }
      release(name);
      --active_;
    }
    on_done(std::move(outcome));
    start_waiting();
  };
  inner_.write(one.what.name, one.what.payload, std::move(finish));
}

// ---- the books shared with other processes ----

/// Alone, what is stored is what there is; else the ledger tells, which knows what others are about to do.
core::result<void> bounded_store::set_up_ledger() {
  auto turn = take_turn();
  if (!turn)
    return core::error{core::errc::io, "the ledger of the block store is being held by another process"};
  if (!ledger_->alone()) {
    auto news = ledger_->read();
    if (!news) return news.error();
    others_.apply(*news, own_work(), {});
    return {};
  }
  auto scanned = inner_.scan([&](const block_name& name) { directory_.insert(name); });
  if (!scanned) return scanned;
  auto replaced = ledger_->replace(others_.everything(own_work()));
  if (!replaced && replaced.error().code == core::errc::no_space) {
    // A full file system has no room for books either. What is stored can be read, so serve on, counting
    // alone.
    { auto over = std::move(*turn); }
    ledger_.reset();
    return {};
  }
  ledger_->share();
  return replaced;
}

void bounded_store::keep_books() {
  constexpr core::duration look_again = std::chrono::milliseconds{5}, patience = std::chrono::seconds{5};
  std::unique_lock lock{mutex_};
  auto wanted = [&] { return asked_ || over_; };
  while (!over_) {
    if (waiting_.empty()) {
      wake_.wait(lock, wanted);
    } else if (!wake_.wait_for(lock, look_again, wanted)) { // only a turn shows what others have done
      without_news_ += look_again;
      if (without_news_ >= patience)
        for (auto& key : others_.take_over_unfinished()) give_up(key);
    }
    asked_ = false;
    lock.unlock();
    if (auto turn = take_turn()) settle(std::move(*turn));
    lock.lock();
  }
}

/// Nothing when the store closes and somebody else keeps the turn for long.
std::optional<block_ledger::turn> bounded_store::take_turn() {
  constexpr auto pause = std::chrono::microseconds{200};
  constexpr int most_pauses_when_over = 5000;
  for (int pauses = 0;; ++pauses) {
    if (auto turn = ledger_->try_turn()) return turn;
    {
      std::lock_guard lock{mutex_};
      if (over_ && pauses >= most_pauses_when_over) return {};
    }
    std::this_thread::sleep_for(pause);
  }
}

/// Tells the ledger, and has it start over where it has grown long. What cannot be told is told later.
core::result<void> bounded_store::publish(std::vector<ledger_entry>& entries) {
  auto added = ledger_->add(entries);
  std::lock_guard lock{mutex_};
  if (!added) {
    notes_.insert(notes_.begin(), entries.begin(), entries.end());
  } else if (ledger_->is_long_for(directory_.size())) {
    // What could not be written anew is still there as it was.
    if (notes_.empty()) (void)ledger_->replace(others_.everything(own_work()));
  }
  return added;
}

void bounded_store::refuse(admitted_write one, const core::error& why) {
  {
    std::lock_guard lock{mutex_};
    writing_.erase(writing_.find(one.what.name.key));
    if (one.is_new) note({ledger_change::gone, one.what.name.key, {}});
    release(one.what.name);
    --active_;
  }
  one.what.on_done(why);
}

/// One turn: learns what others did, starts the writes there is room for, and tells what we did.
void bounded_store::settle(block_ledger::turn turn) {
  auto news = ledger_->read();
  std::vector<admitted_write> begin;
  std::vector<ledger_entry> entries;
  std::vector<core::block_key> leaving;
  {
    std::lock_guard lock{mutex_};
    if (news) {
      if (!news->entries.empty()) without_news_ = {};
      others_.apply(*news, own_work(), tell_evicted_);
      // What was used here since the last turn is younger than what others told before this one.
      directory_.touch(std::vector(used_.begin(), used_.end()));
      while (auto next = admit_next()) begin.push_back(std::move(*next));
    }
    entries.swap(notes_);
    leaving.swap(to_remove_);
    for (auto& key : used_) entries.push_back({ledger_change::used, key, {}});
    used_.clear();
  }
  auto told = news ? publish(entries) : core::result<void>{news.error()};
  { auto over = std::move(turn); }
  for (auto& key : leaving) remove_now(key);
  for (auto& one : begin) {
    if (told) {
      start(std::move(one));
    } else {
      refuse(std::move(one), told.error());
    }
  }
}

} // namespace

core::result<std::unique_ptr<block_store>> bound_store(std::unique_ptr<block_store> inner,
                                                       std::uint64_t block_bytes,
                                                       std::uint64_t capacity_bytes,
                                                       std::unique_ptr<block_ledger> ledger) {
  auto blocks = capacity_bytes / block_bytes;
  if (blocks == 0)
    return core::error{core::errc::invalid_argument, "the block store's capacity of "
                                                         + std::to_string(capacity_bytes)
                                                         + " bytes has no room for a block of "
                                                         + std::to_string(block_bytes) + " bytes; raise it"};
  auto store = std::make_unique<bounded_store>(std::move(inner), blocks, std::move(ledger));
  if (auto loaded = store->load(); !loaded) return loaded.error();
  return std::unique_ptr<block_store>{std::move(store)};
}

} // namespace dualpath::storage

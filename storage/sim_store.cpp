#include "storage/sim_store.hpp"

#include "storage/buffer_check.hpp"
#include "storage/checksum.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dualpath::storage {

struct sim_block {
  block_name name;
  std::uint64_t payload_bytes = 0;
  std::unique_ptr<std::byte[]> payload; ///< null when only names are kept
  std::optional<checksum128> sum;       ///< none from a store that does not verify
};

class sim_shelf {
public:
  using block = std::shared_ptr<const sim_block>;

  block find(const core::block_key& key) const {
    std::lock_guard lock{mutex_};
    auto found = blocks_.find(key);
    return found == blocks_.end() ? nullptr : found->second;
  }
  bool insert(block what, std::uint64_t capacity_bytes) {
    std::lock_guard lock{mutex_};
    if (blocks_.contains(what->name.key)) return true;
    if (capacity_bytes != 0 && bytes_ + what->payload_bytes > capacity_bytes) return false;
    bytes_ += what->payload_bytes;
    blocks_.emplace(what->name.key, std::move(what));
    return true;
  }
  void erase(const core::block_key& key) {
    std::lock_guard lock{mutex_};
    auto found = blocks_.find(key);
    if (found == blocks_.end()) return;
    bytes_ -= found->second->payload_bytes;
    blocks_.erase(found);
  }
  std::vector<block_name> names(std::uint64_t payload_bytes) const {
    std::lock_guard lock{mutex_};
    std::vector<block_name> all;
    for (auto& [key, one] : blocks_)
      if (one->payload_bytes == payload_bytes) all.push_back(one->name);
    return all;
  }

private:
  mutable std::mutex mutex_;
  std::unordered_map<core::block_key, block> blocks_;
  std::uint64_t bytes_ = 0;
};

std::shared_ptr<sim_shelf> make_sim_shelf() { return std::make_shared<sim_shelf>(); }

namespace {

/// Operations between their call and their completion. Actions of the clock may outlive the store, so they
/// share it.
class in_flight {
public:
  /// Told whether the store is closing instead.
  using action = std::function<void(bool closing)>;

  std::uint64_t add(action what) {
    std::lock_guard lock{mutex_};
    waiting_.emplace(next_, std::move(what));
    return next_++;
  }
  void complete(std::uint64_t ticket) {
    action what;
    {
      std::lock_guard lock{mutex_};
      auto found = waiting_.find(ticket);
      if (found == waiting_.end()) return;
      what = std::move(found->second);
      waiting_.erase(found);
      ++running_;
    }
    what(false);
    what = nullptr;
    std::lock_guard lock{mutex_};
    --running_;
    idle_.notify_all();
  }
  /// Ends everything, also what completions ask for meanwhile.
  void close() {
    std::unique_lock lock{mutex_};
    for (;;) {
      idle_.wait(lock, [&] { return running_ == 0; });
      if (waiting_.empty()) return;
      auto what = std::move(waiting_.extract(waiting_.begin()).mapped());
      lock.unlock();
      what(true);
      lock.lock();
    }
  }

private:
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<std::uint64_t, action> waiting_;
  std::uint64_t next_ = 0;
  unsigned running_ = 0;
};

enum class verb { read, write, remove };

struct fate {
  bool missing = false, corrupt = false, io_error = false;
  std::uint64_t damage = 0; ///< chooses the flipped bit
};

class sim_store final : public block_store {
public:
  explicit sim_store(sim_store_options options)
      : options_{std::move(options)},
        own_clock_{options_.clock ? nullptr : std::make_unique<core::steady_clock>()},
        clock_{options_.clock ? *options_.clock : *own_clock_},
        shelf_{options_.shelf ? options_.shelf : make_sim_shelf()},
        random_{options_.faults.seed} {}

  ~sim_store() override { in_flight_->close(); }

  std::uint64_t payload_bytes() const override { return options_.payload_bytes; }

  void read(const core::block_key& key, std::span<std::byte> payload, done on_done) override {
    start(verb::read, misfit(payload), std::move(on_done),
          [this, key, payload](const fate& drawn) { return take(key, payload, drawn); });
  }
  void write(const block_name& name, std::span<const std::byte> payload, done on_done) override {
    start(verb::write, misfit(payload), std::move(on_done),
          [this, name, payload](const fate&) { return put(name, payload); });
  }
  void remove(const core::block_key& key, done on_done) override {
    start(verb::remove, {}, std::move(on_done), [this, key](const fate&) {
      shelf_->erase(key);
      return core::result<void>{};
    });
  }
  core::result<void> scan(const std::function<void(const block_name&)>& visit) override {
    for (auto& name : shelf_->names(options_.payload_bytes)) visit(name);
    return {};
  }
  store_counters counters() const override {
    std::lock_guard lock{mutex_};
    return counters_;
  }
  std::string describe() const override {
    return "blocks of " + std::to_string(options_.payload_bytes) + " bytes in memory, with modelled time";
  }

private:
  using effect = std::function<core::result<void>(const fate&)>;

  void start(verb what, std::optional<core::error> refusal, done on_done, effect apply);
  core::instant schedule(verb what, fate& drawn);
  core::result<void> take(const core::block_key& key, std::span<std::byte> payload, const fate& drawn);
  core::result<void> put(const block_name& name, std::span<const std::byte> payload);
  void count(verb what, const core::result<void>& outcome);
  std::optional<core::error> misfit(std::span<const std::byte> payload) const;

  const sim_store_options options_;
  const std::unique_ptr<core::steady_clock> own_clock_;
  core::clock& clock_;
  const std::shared_ptr<sim_shelf> shelf_;
  const std::shared_ptr<in_flight> in_flight_ = std::make_shared<in_flight>();

  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  core::instant read_free_{0}, write_free_{0}; ///< when each direction has moved all it was given
  store_counters counters_;
};

core::instant sim_store::schedule(verb what, fate& drawn) {
  std::lock_guard lock{mutex_};
  auto happens = [&](double probability) {
    return probability > 0 && std::uniform_real_distribution{}(random_) < probability;
  };
  auto& faults = options_.faults;
  drawn.io_error = happens(faults.io_error);
  drawn.missing = what == verb::read && happens(faults.missing);
  drawn.corrupt = what == verb::read && happens(faults.corrupt);
  if (drawn.corrupt) drawn.damage = random_();
  auto late = happens(faults.delayed) ? faults.delay : core::duration{0};

  auto now = clock_.now();
  auto moved = now;
  auto speed = what == verb::read ? options_.timing.read_bytes_per_s : options_.timing.write_bytes_per_s;
  if (what != verb::remove && speed > 0) {
    auto& free = what == verb::read ? read_free_ : write_free_;
    free = std::max(free, now) + core::from_seconds(static_cast<double>(options_.payload_bytes) / speed);
    moved = free;
  }
  return moved + options_.timing.latency + late;
}

void sim_store::start(verb what, std::optional<core::error> refusal, done on_done, effect apply) {
  fate drawn;
  auto due = refusal ? clock_.now() : schedule(what, drawn);
  auto finish = [this, what, refusal = std::move(refusal), on_done = std::move(on_done),
                 apply = std::move(apply), drawn](bool closing) {
    if (refusal) return on_done(*refusal);
    core::result<void> outcome;
    if (closing)
      outcome = core::error{core::errc::closed, "the simulated block store is closing"};
    else if (drawn.io_error)
      outcome = core::error{core::errc::io, "injected i/o error"};
    else
      outcome = apply(drawn);
    count(what, outcome);
    on_done(std::move(outcome));
  };
  auto ticket = in_flight_->add(std::move(finish));
  clock_.call_at(due, [waiting = in_flight_, ticket] { waiting->complete(ticket); });
}

core::result<void> sim_store::take(const core::block_key& key, std::span<std::byte> payload,
                                   const fate& drawn) {
  auto lost = [&](core::errc code, const char* why) {
    shelf_->erase(key);
    return core::error{code, "block " + core::to_hex(key) + why};
  };
  if (drawn.missing) return lost(core::errc::not_found, " is not stored: injected loss");
  auto found = shelf_->find(key);
  if (!found || found->payload_bytes != options_.payload_bytes)
    return core::error{core::errc::not_found, "block " + core::to_hex(key) + " is not stored"};
  auto stored = padded_bytes(options_.payload_bytes);
  if (found->payload) {
    std::memcpy(payload.data(), found->payload.get(), stored);
    if (drawn.corrupt) payload[drawn.damage / 8 % stored] ^= std::byte{1} << drawn.damage % 8;
    if (options_.verify && found->sum && checksum(payload.first(stored)) != *found->sum)
      return lost(core::errc::corrupt, " is damaged: its payload fails its checksum");
  }
  // Without bytes, or without verification, damage would go unnoticed here; the store it stands for notices.
  if (drawn.corrupt) return lost(core::errc::corrupt, " is damaged: injected fault");
  return {};
}

core::result<void> sim_store::put(const block_name& name, std::span<const std::byte> payload) {
  auto block = std::make_shared<sim_block>();
  block->name = name;
  block->payload_bytes = options_.payload_bytes;
  if (options_.keep_payload && !shelf_->find(name.key)) {
    auto stored = padded_bytes(options_.payload_bytes);
    block->payload = std::make_unique_for_overwrite<std::byte[]>(stored);
    std::memcpy(block->payload.get(), payload.data(), stored);
    if (options_.verify) block->sum = checksum(payload.first(stored));
  }
  if (!shelf_->insert(std::move(block), options_.faults.capacity_bytes))
    return core::error{core::errc::no_space, "the simulated block store is full at "
                                                 + std::to_string(options_.faults.capacity_bytes) + " bytes"};
  return {};
}

void sim_store::count(verb what, const core::result<void>& outcome) {
  std::lock_guard lock{mutex_};
  if (outcome) {
    if (what == verb::read) ++counters_.reads, counters_.read_bytes += options_.payload_bytes;
    if (what == verb::write) ++counters_.writes, counters_.written_bytes += options_.payload_bytes;
    return;
  }
  switch (outcome.error().code) {
  case core::errc::not_found:
    ++counters_.missing;
    break;
  case core::errc::corrupt:
    ++counters_.corrupt;
    break;
  case core::errc::io:
    ++counters_.io_errors;
    break;
  case core::errc::no_space:
    ++counters_.no_space;
    break;
  default:
    break;
  }
}

std::optional<core::error> sim_store::misfit(std::span<const std::byte> payload) const {
  if (!options_.keep_payload) return {};
  return buffer_misfit(payload, options_.payload_bytes);
}

} // namespace

core::result<std::unique_ptr<block_store>> open_sim_store(sim_store_options options) {
  auto invalid = [](std::string text) { return core::error{core::errc::invalid_argument, std::move(text)}; };
  if (options.payload_bytes == 0)
    return invalid("the simulated block store's payload_bytes is 0; give a block's size");
  auto& faults = options.faults;
  for (auto [name, value] : {std::pair{"missing", faults.missing}, std::pair{"corrupt", faults.corrupt},
                             std::pair{"io_error", faults.io_error}, std::pair{"delayed", faults.delayed}})
    if (!(value >= 0 && value <= 1))
      return invalid("the fault probability " + std::string{name} + " is " + std::to_string(value)
                     + "; choose one from 0 to 1");
  auto& timing = options.timing;
  if (!(timing.read_bytes_per_s >= 0) || !(timing.write_bytes_per_s >= 0))
    return invalid("a bandwidth of the simulated block store is negative; choose 0 for no limit");
  if (timing.latency < core::duration{0} || faults.delay < core::duration{0})
    return invalid("a latency of the simulated block store is negative; choose 0 for none");
  return std::unique_ptr<block_store>{std::make_unique<sim_store>(std::move(options))};
}

} // namespace dualpath::storage

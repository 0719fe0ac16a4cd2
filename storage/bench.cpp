#include "storage/bench.hpp"

#include "core/clock.hpp"
#include "storage/checksum.hpp"
#include "storage/file_store.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include <sys/resource.h>

namespace dualpath::storage {
namespace {

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double since(std::chrono::steady_clock::time_point start) {
  return core::to_seconds(std::chrono::steady_clock::now() - start);
}

/// Keeps a number of operations in flight, each in a buffer of its own, until all have been done.
class pump {
public:
  /// Starts operation `number` in buffer `lane`; the function it is handed must be called when it ends.
  using start = std::function<void(std::size_t number, std::size_t lane, block_store::done ended)>;

  pump(std::size_t total, start begin) : total_{total}, begin_{std::move(begin)} {}

  core::result<void> run(std::size_t lanes) {
    lanes = std::min(lanes, total_);
    running_ = lanes;
    for (std::size_t lane = 0; lane < lanes; ++lane) next(lane);
    std::unique_lock lock{mutex_};
    wake_.wait(lock, [&] { return running_ == 0; });
    if (failure_) return *failure_;
    return {};
  }

private:
  void next(std::size_t lane) {
    auto number = next_.fetch_add(1);
    if (number >= total_) return finish({});
    begin_(number, lane, [this, lane](core::result<void> outcome) {
      if (outcome)
        next(lane);
      else
        finish(outcome.error());
    });
  }
  void finish(std::optional<core::error> failure) {
    std::lock_guard lock{mutex_};
    if (failure) failure_ = std::move(failure);
    if (--running_ == 0) wake_.notify_one();
  }

  const std::size_t total_;
  const start begin_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::size_t running_ = 0;
  std::optional<core::error> failure_;
};

struct cost {
  double seconds = 0, cpu_seconds = 0;
};

core::result<cost> measure(std::size_t total, std::size_t lanes, pump::start begin) {
  auto cpu = cpu_seconds();
  auto start = std::chrono::steady_clock::now();
  pump work{total, std::move(begin)};
  if (auto done = work.run(lanes); !done) return done.error();
  return cost{since(start), cpu_seconds() - cpu};
}

double checksum_speed(std::span<const std::byte> bytes) {
  constexpr double enough_s = 0.2;
  auto start = std::chrono::steady_clock::now();
  std::uint64_t hashed = 0;
  while (since(start) < enough_s) {
    volatile auto used = checksum(bytes).low;
    (void)used;
    hashed += bytes.size();
  }
  return static_cast<double>(hashed) / since(start) * 1e-9;
}

core::result<void> check(const bench_options& options) {
  auto invalid = [](std::string text) { return core::error{core::errc::invalid_argument, std::move(text)}; };
  if (options.block_bytes == 0 || options.block_bytes > std::numeric_limits<std::uint32_t>::max())
    return invalid("the bench's block_bytes is " + std::to_string(options.block_bytes)
                   + "; choose 1 to 2^32 - 1");
  if (options.blocks == 0 || options.reads_per_block == 0 || options.in_flight == 0)
    return invalid("the bench needs at least one block, one read of each and one operation in flight");
  return {};
}

core::model_fingerprint bench_model() {
  return {core::digest128(std::as_bytes(std::span{std::string_view{"dualpath bench"}}))};
}

/// The blocks of one run, and the buffers they move through.
class session {
public:
  session(const bench_options& options, block_store& store)
      : options_{options},
        store_{store},
        random_{options.seed},
        stride_{padded_bytes(options.block_bytes)},
        pool_{static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, stride_ * options.in_flight)),
              std::free} {
    auto parent = core::root_key(bench_model());
    for (std::uint32_t depth = 0; depth < options.blocks; ++depth) {
      core::token_id tokens[] = {static_cast<core::token_id>(options.seed), depth};
      names_.push_back({.key = core::child_key(parent, tokens), .parent = parent, .depth = depth});
      parent = names_.back().key;
    }
    std::generate_n(reinterpret_cast<std::uint64_t*>(pool_.get()), stride_ * options.in_flight / 8,
                    std::ref(random_));
  }

  std::span<std::byte> buffer(std::size_t lane) { return {pool_.get() + lane * stride_, stride_}; }

  core::result<cost> write() {
    return measure(names_.size(), options_.in_flight,
                   [&](std::size_t i, std::size_t lane, block_store::done ended) {
                     store_.write(names_[i], buffer(lane), std::move(ended));
                   });
  }
  core::result<cost> read() {
    std::vector<std::size_t> order;
    for (std::uint32_t round = 0; round < options_.reads_per_block; ++round)
      for (std::size_t i = 0; i < names_.size(); ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), random_);
    return measure(order.size(), options_.in_flight,
                   [&](std::size_t i, std::size_t lane, block_store::done ended) {
                     store_.read(names_[order[i]].key, buffer(lane), std::move(ended));
                   });
  }
  core::result<cost> remove() {
    return measure(names_.size(), options_.in_flight,
                   [&](std::size_t i, std::size_t, block_store::done ended) {
                     store_.remove(names_[i].key, std::move(ended));
                   });
  }
  core::result<double> scan() {
    auto start = std::chrono::steady_clock::now();
    std::size_t visited = 0;
    auto done = store_.scan([&](const block_name&) { ++visited; });
    if (!done) return done.error();
    return static_cast<double>(visited) / since(start);
  }

private:
  const bench_options& options_;
  block_store& store_;
  std::mt19937_64 random_;
  const std::uint64_t stride_;
  const std::unique_ptr<std::byte, void (*)(void*)> pool_;
  std::vector<block_name> names_;
};

core::result<bench_result> run(const bench_options& options, block_store& store) {
  session blocks{options, store};
  bench_result result{.store = store.describe()};
  result.checksum_gb_per_s = checksum_speed(blocks.buffer(0));
  auto written = blocks.write();
  if (!written) return written.error();
  auto read = blocks.read();
  if (!read) return read.error();
  auto scanned = blocks.scan();
  if (!scanned) return scanned.error();

  auto written_gb = static_cast<double>(options.block_bytes) * options.blocks * 1e-9;
  auto read_gb = written_gb * options.reads_per_block;
  result.write_gb_per_s = written_gb / written->seconds;
  result.read_gb_per_s = read_gb / read->seconds;
  result.write_cpu_s_per_gb = written->cpu_seconds / written_gb;
  result.read_cpu_s_per_gb = read->cpu_seconds / read_gb;
  result.scan_blocks_per_s = *scanned;
  return result;
}

} // namespace

core::result<bench_result> bench_store(const bench_options& options) {
  if (auto sound = check(options); !sound) return sound.error();
  core::block_layout layout{
      .layers = 1, .block_tokens = 1, .token_bytes = static_cast<std::uint32_t>(options.block_bytes)};
  auto store = open_file_store({.directory = options.directory,
                                .model = bench_model(),
                                .layout = layout,
                                .queue_depth = options.in_flight,
                                .direct_io = options.direct_io});
  if (!store) return store.error();
  // Blocks of an earlier run that did not end would be hits, and their writes would cost nothing.
  if (auto gone = session{options, **store}.remove(); !gone) return gone.error();
  auto result = run(options, **store);
  auto gone = session{options, **store}.remove();
  if (result && !gone) return gone.error();
  return result;
}

} // namespace dualpath::storage

#include "storage/bench.hpp"

#include "core/cpu_time.hpp"
#include "core/page_memory.hpp"
#include "storage/bench_pump.hpp"
#include "storage/checksum.hpp"
#include "storage/file_store.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace dualpath::storage {
namespace {

double thread_cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Every byte, and as little else as can be; in several streams, which the core fetches side by side.
std::uint64_t read_words(std::span<const std::byte> bytes) {
  using words = std::uint64_t __attribute__((vector_size(64)));
  constexpr std::size_t streams = 4;
  auto stream_bytes = bytes.size() / streams;
  words sum{};
  for (std::size_t at = 0; at + sizeof(words) <= stream_bytes; at += sizeof(words))
    for (std::size_t i = 0; i < streams; ++i) {
      words line;
      std::memcpy(&line, bytes.data() + i * stream_bytes + at, sizeof line);
      sum += line;
    }
  return sum[0] + sum[3] + sum[5] + sum[7];
}

/// Of working through `bytes`, a part of them at a time, over and over.
template <class Work>
double cpu_s_per_gb(std::span<const std::byte> bytes, std::uint64_t part_bytes, Work work) {
  constexpr double enough_s = 0.2;
  double used_s = 0;
  std::uint64_t done = 0;
  auto start_s = thread_cpu_seconds();
  while (used_s < enough_s) {
    for (std::uint64_t at = 0; at < bytes.size(); at += part_bytes) {
      volatile auto kept = work(bytes.subspan(at, std::min<std::uint64_t>(part_bytes, bytes.size() - at)));
      (void)kept;
    }
    done += bytes.size();
    used_s = thread_cpu_seconds() - start_s;
  }
  return used_s / (static_cast<double>(done) * 1e-9);
}

core::result<void> check(const bench_options& options) {
  auto invalid = [](std::string text) { return core::error{core::errc::invalid_argument, std::move(text)}; };
  if (options.block_bytes == 0 || options.block_bytes > std::numeric_limits<std::uint32_t>::max())
    return invalid("the bench's block_bytes is " + std::to_string(options.block_bytes)
                   + "; choose 1 to 2^32 - 1");
  if (options.blocks == 0 || options.in_flight == 0)
    return invalid("the bench needs at least one block and one operation in flight");
  return {};
}

core::model_fingerprint bench_model() {
  return {core::digest128(std::as_bytes(std::span{std::string_view{"dualpath bench"}}))};
}

/// The blocks of one run, and the buffers they move through.
class file_store_bench final : public store_bench {
public:
  file_store_bench(const bench_options& options, std::unique_ptr<block_store> store)
      : options_{options},
        random_{options.seed},
        stride_{padded_bytes(options.block_bytes)},
        pool_{core::page_memory::allocate(stride_ * options.requests())},
        store_{std::move(store)} {
    auto parent = core::root_key(bench_model());
    for (std::uint32_t depth = 0; depth < options.blocks; ++depth) {
      core::token_id tokens[] = {static_cast<core::token_id>(options.seed), depth};
      names_.push_back({.key = core::child_key(parent, tokens), .parent = parent, .depth = depth});
      parent = names_.back().key;
    }
    std::generate_n(reinterpret_cast<std::uint64_t*>(pool_.bytes().data()), pool_.bytes().size() / 8,
                    std::ref(random_));
  }

  core::result<bench_phase> write() override {
    // Blocks that exist would be hits, and their writes would cost nothing.
    if (auto gone = remove(); !gone) return gone.error();
    return measure(options_.blocks, [&](std::size_t i, std::size_t lane, block_store::done ended) {
      store_->write(names_[i], buffer(lane), std::move(ended));
    });
  }
  core::result<bench_phase> read() override {
    std::vector<std::size_t> order(names_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    return measure(order.size(), [&](std::size_t i, std::size_t lane, block_store::done ended) {
      store_->read(names_[order[i]].key, buffer(lane), std::move(ended));
    });
  }
  core::result<void> remove() override {
    auto gone = measure(names_.size(), [&](std::size_t i, std::size_t, block_store::done ended) {
      store_->remove(names_[i].key, std::move(ended));
    });
    if (!gone) return gone.error();
    return {};
  }
  core::result<double> scan() override {
    auto start = std::chrono::steady_clock::now();
    std::size_t visited = 0;
    auto done = store_->scan([&](const block_name&) { ++visited; });
    if (!done) return done.error();
    return static_cast<double>(visited) / seconds_since(start);
  }
  checksum_cost checksum() const override {
    std::span<const std::byte> all = pool_.bytes();
    auto hash = [](std::span<const std::byte> part) { return storage::checksum(part).low; };
    auto hash_hot = [](std::span<const std::byte> part) {
      running_checksum sum;
      sum.add(part);
      return sum.value().low;
    };
    constexpr std::uint64_t hot_bytes = 256 << 10;
    return {cpu_s_per_gb(all.first(std::min<std::uint64_t>(all.size(), hot_bytes)), stride_, hash_hot),
            cpu_s_per_gb(all, stride_, hash), cpu_s_per_gb(all, stride_, read_words)};
  }
  std::string describe() const override { return store_->describe(); }
  bool direct() const override { return describe().find("direct I/O") != std::string::npos; }

private:
  std::span<std::byte> buffer(std::size_t lane) const {
    return pool_.bytes().subspan(lane * stride_, stride_);
  }

  core::result<bench_phase> measure(std::size_t total, pump::start begin) {
    auto cpu = core::process_cpu_seconds();
    auto start = std::chrono::steady_clock::now();
    pump work{total, std::move(begin)};
    if (auto done = work.run(options_.requests()); !done) return done.error();
    auto gb = static_cast<double>(options_.block_bytes * total) * 1e-9;
    return bench_phase{gb / seconds_since(start), (core::process_cpu_seconds() - cpu) / gb};
  }

  const bench_options options_;
  std::mt19937_64 random_;
  const std::uint64_t stride_;
  const core::page_memory pool_;
  std::vector<block_name> names_;
  std::unique_ptr<block_store> store_; ///< last: it works on the buffers until it is closed
};

} // namespace

core::result<std::unique_ptr<store_bench>> store_bench::open(const bench_options& options) {
  if (auto sound = check(options); !sound) return sound.error();
  core::block_layout layout{
      .layers = 1, .block_tokens = 1, .token_bytes = static_cast<std::uint32_t>(options.block_bytes)};
  auto store = open_file_store({.directory = options.directory,
                                .model = bench_model(),
                                .layout = layout,
                                .queue_depth = options.in_flight,
                                .threads = options.threads,
                                .direct_io = options.direct_io});
  if (!store) return store.error();
  return std::unique_ptr<store_bench>{std::make_unique<file_store_bench>(options, std::move(*store))};
}

} // namespace dualpath::storage

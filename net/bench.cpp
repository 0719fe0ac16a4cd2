#include "net/bench.hpp"

#include "net/bench_raw.hpp"
#include "net/ucx_fabric.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace dualpath::net {
namespace {

constexpr std::uint64_t region_bytes = 64ULL << 20;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Two connected fabrics; transfers go from the first to the second.
class fabric_pair {
public:
  core::result<void> open(const std::string& transports) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      ucx_fabric_options options;
      options.clock = &clock_;
      options.self.engine = core::engine_id{side};
      options.transports = transports;
      auto opened = open_ucx_fabric(std::move(options));
      if (!opened) return opened.error();
      fabrics_[side] = std::move(*opened);
      auto memory = fabrics_[side]->allocate(region_bytes);
      if (!memory) return memory.error();
      memory_[side] = *memory;
    }
    std::optional<core::result<peer_id>> peer;
    fabrics_[0]->connect(fabrics_[1]->address(), soon(), [&](core::result<peer_id> connected) {
      std::lock_guard lock{mutex_};
      peer = std::move(connected);
      changed_.notify_one();
    });
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return peer.has_value(); });
    if (!*peer) return peer->error();
    peer_ = **peer;
    auto exported = fabrics_[1]->export_region(memory_[1].id);
    if (!exported) return exported.error();
    auto imported = fabrics_[0]->import_region(peer_, *exported);
    if (!imported) return imported.error();
    remote_ = *imported;
    return {};
  }

  core::result<double> run(const bench_row& row, std::uint64_t transfers, std::uint32_t in_flight) {
    finished_ = 0;
    failure_.reset();
    auto begin = clock_.now();
    auto stride = 2 * row.piece_bytes;
    auto slots = std::max<std::uint64_t>(1, region_bytes / (stride * row.pieces));
    for (std::uint64_t i = 0; i < transfers; ++i) {
      {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, [&] { return i - finished_ < in_flight; });
      }
      auto offset = i % slots * row.pieces * stride;
      transfer t{peer_,
                 lane::kv,
                 memory_[0].id,
                 remote_,
                 {{offset, stride, offset, stride, row.piece_bytes, row.pieces}},
                 soon()};
      auto on_done = [this](core::result<void> end) {
        std::lock_guard lock{mutex_};
        if (!end) failure_ = end.error();
        ++finished_;
        changed_.notify_one();
      };
      if (row.put) {
        fabrics_[0]->put(std::move(t), on_done);
      } else {
        fabrics_[0]->get(std::move(t), on_done);
      }
    }
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return finished_ == transfers; });
    if (failure_) return *failure_;
    return core::to_seconds(clock_.now() - begin);
  }

private:
  core::instant soon() const { return clock_.now() + std::chrono::seconds{60}; }

  core::steady_clock clock_;
  std::unique_ptr<fabric> fabrics_[2];
  memory_region memory_[2];
  peer_id peer_;
  remote_region_id remote_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t finished_ = 0;
  std::optional<core::error> failure_;
};

std::uint64_t transfers_of(const bench_row& row, const bench_options& options) {
  auto bytes = row.piece_bytes * row.pieces;
  return std::clamp<std::uint64_t>(options.bytes_per_case / bytes, 16, options.transfers_max);
}

} // namespace

core::result<std::vector<bench_row>> measure_fabric(const bench_options& options) {
  std::vector<bench_row> rows;
  for (bool put : {true, false}) {
    for (std::uint64_t bytes : {4ULL << 10, 64ULL << 10, 1ULL << 20, 8ULL << 20})
      rows.push_back({.put = put, .piece_bytes = bytes});
    rows.push_back({.put = put, .piece_bytes = 4096, .pieces = 64});
  }
  {
    fabric_pair pair;
    if (auto opened = pair.open(options.transports); !opened) return opened.error();
    for (auto& row : rows) {
      auto count = transfers_of(row, options);
      auto gigabytes = static_cast<double>(row.piece_bytes * row.pieces * count) * 1e-9;
      if (auto warm = pair.run(row, 16, options.in_flight); !warm) return warm.error();
      auto cpu = cpu_seconds();
      auto seconds = pair.run(row, count, options.in_flight);
      if (!seconds) return seconds.error();
      row.fabric_cpu_s_per_gb = (cpu_seconds() - cpu) / gigabytes;
      row.fabric_gb_per_s = gigabytes / *seconds;
      row.fabric_us_per_transfer = *seconds * 1e6 / static_cast<double>(count);
    }
  }
  auto raw = raw_pair::open(options.transports, region_bytes);
  if (!raw) return raw.error();
  for (auto& row : rows) {
    auto count = transfers_of(row, options);
    if (auto warm = (*raw)->run(row, 16, options.in_flight); !warm) return warm.error();
    auto seconds = (*raw)->run(row, count, options.in_flight);
    if (!seconds) return seconds.error();
    row.raw_gb_per_s = static_cast<double>(row.piece_bytes * row.pieces * count) * 1e-9 / *seconds;
    row.raw_us_per_transfer = *seconds * 1e6 / static_cast<double>(count);
  }
  return rows;
}

} // namespace dualpath::net

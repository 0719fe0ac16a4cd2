#include "apps/bench_arbiter.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace dualpath::apps {

namespace {

constexpr std::uint64_t unit_bytes = 64; ///< what tables count in; anything smaller is charged as one

/// Sizes of messages of KV and of all other lanes, evenly between the two bounds.
struct mix {
  const char* name;
  std::uint64_t kv_least, kv_most, other_least, other_most;
};
constexpr mix mixes[] = {
    {"all 4 KiB", 4096, 4096, 4096, 4096},
    {"all 256 KiB", 256 << 10, 256 << 10, 256 << 10, 256 << 10},
    {"all 64 B to 1 MiB", 64, 1 << 20, 64, 1 << 20},
    {"KV 256 KiB, others 64 B to 4 KiB", 256 << 10, 256 << 10, 64, 4096},
    {"KV 4 KiB, others 1 MiB", 4096, 4096, 1 << 20, 1 << 20},
};

class traffic {
public:
  traffic(const core::qos_config& qos, const mix& of, std::uint64_t seed)
      : mix_{of}, random_{seed}, heads_(qos.classes.size()), sent_(qos.classes.size()) {
    auto kv = core::find_class(qos, "kv");
    kv_ = kv == nullptr ? heads_.size() : kv->lane;
    for (std::size_t lane = 0; lane < heads_.size(); ++lane) refill(lane);
  }
  void run(core::arbiter& arbiter, std::uint64_t picks) {
    for (std::uint64_t i = 0; i < picks; ++i) {
      auto lane = arbiter.pick(heads_);
      if (!lane) return;
      sent_[*lane] += static_cast<double>(heads_[*lane]);
      refill(*lane);
    }
  }
  std::vector<double> shares() const {
    double all = 0;
    for (auto bytes : sent_) all += bytes;
    auto out = sent_;
    for (auto& share : out) share /= std::max(all, 1.0);
    return out;
  }

private:
  void refill(std::size_t lane) {
    auto least = lane == kv_ ? mix_.kv_least : mix_.other_least;
    auto most = lane == kv_ ? mix_.kv_most : mix_.other_most;
    auto units = least / unit_bytes + random_() % ((most - least) / unit_bytes + 1);
    heads_[lane] = units * unit_bytes;
  }

  const mix& mix_;
  std::minstd_rand random_;
  std::vector<std::uint64_t> heads_;
  std::vector<double> sent_;
  std::size_t kv_ = 0;
};

} // namespace

std::vector<arbiter_bench_row> measure_arbiter(const core::qos_config& qos, std::uint64_t picks,
                                               const core::clock& clock, std::uint64_t seed) {
  auto promised = core::sure_shares(qos);
  std::vector<arbiter_bench_row> rows;
  for (const auto& each : mixes) {
    core::arbiter arbiter{qos.tables};
    traffic load{qos, each, seed};
    auto begin = clock.now();
    load.run(arbiter, picks);
    auto seconds = core::to_seconds(clock.now() - begin);
    arbiter_bench_row row{each.name, static_cast<double>(picks) / std::max(seconds, 1e-9), load.shares(), 0};
    for (std::size_t i = 0; i < promised.size(); ++i)
      row.worst_error = std::max(row.worst_error, std::abs(row.shares[i] - promised[i]));
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace dualpath::apps

#include "net/bench_lanes.hpp"

#include "net/lane_traffic.hpp"
#include "net/paced_fabric.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <sched.h>

namespace dualpath::net {
namespace {

constexpr std::uint64_t region_bytes = 64ULL << 20;
constexpr std::uint32_t in_flight = 4;

/// One layer of sixteen Full Blocks, as KV moves.
std::vector<strided_piece> kv_pieces(std::uint32_t blocks) {
  return {{0, 1 << 20, 0, 1 << 20, 64 << 10, blocks}};
}
constexpr std::uint32_t kv_blocks = 16;
/// One part of an all-to-all.
std::vector<strided_piece> collective_pieces() { return {{32ULL << 20, 0, 32ULL << 20, 0, 256ULL << 10, 1}}; }

/// While it lives, this thread and those it starts have every second core to themselves: two ends on one
/// machine would else take each other's core, as two machines cannot.
class half_of_the_cores {
public:
  explicit half_of_the_cores(std::uint32_t which) {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0 || CPU_COUNT(&before_) < 2) return;
    cpu_set_t half;
    CPU_ZERO(&half);
    std::uint32_t number = 0;
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_) && number++ % 2 == which) CPU_SET(cpu, &half);
    changed_ = sched_setaffinity(0, sizeof half, &half) == 0;
  }
  half_of_the_cores(const half_of_the_cores&) = delete;
  half_of_the_cores& operator=(const half_of_the_cores&) = delete;
  ~half_of_the_cores() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }

private:
  cpu_set_t before_;
  bool changed_ = false;
};

class lanes_bench {
public:
  explicit lanes_bench(const lanes_bench_options& options)
      : options_{options}, unpaced_{clock_}, paced_{clock_} {}

  core::result<lanes_report> run();

private:
  core::result<void> open();
  core::result<message_latency> messages(lane_pair& pair, bool with_kv);
  core::result<lane_speeds> saturate(lane_pair& pair, bool with_collectives);
  core::result<void> measure_once();

  const lanes_bench_options& options_;
  core::steady_clock clock_;
  lane_pair unpaced_, paced_;
  struct samples {
    std::vector<message_latency> idle, unpaced, paced;
    std::vector<lane_speeds> alone_unpaced, alone_paced, both_unpaced, both_paced;
  } seen_;
};

double median(std::vector<double> values) {
  auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

template <class T>
double median(const std::vector<T>& of, double T::*value) {
  std::vector<double> values;
  for (auto& each : of) values.push_back(each.*value);
  return median(std::move(values));
}

/// Of what was measured one beside the other.
template <class T>
double median_ratio(const std::vector<T>& of, const std::vector<T>& to, double T::*value) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < of.size(); ++i)
    ratios.push_back(to[i].*value > 0 ? of[i].*value / (to[i].*value) : 0);
  return median(std::move(ratios));
}

latency_ratio median_ratio(const std::vector<message_latency>& of, const std::vector<message_latency>& to) {
  return {median_ratio(of, to, &message_latency::p50_us), median_ratio(of, to, &message_latency::p99_us)};
}

message_latency median(const std::vector<message_latency>& of) {
  return {median(of, &message_latency::p50_us), median(of, &message_latency::p99_us),
          median(of, &message_latency::kv_gb_per_s)};
}

lane_speeds median(const std::vector<lane_speeds>& of) {
  return {median(of, &lane_speeds::kv), median(of, &lane_speeds::collective)};
}

core::result<void> lanes_bench::open() {
  auto side = [&](std::uint32_t number, bool paced) -> core::result<std::unique_ptr<fabric>> {
    ucx_fabric_options options;
    options.clock = &clock_;
    options.self.engine = core::engine_id{number};
    options.transports = options_.transports;
    options.collective_busy_poll = options_.collective_busy_poll;
    if (paced) options.niceness[static_cast<std::size_t>(lane::kv)] = options_.kv_niceness;
    half_of_the_cores own{number % 2};
    auto opened = open_ucx_fabric(std::move(options));
    if (!opened || !paced) return opened;
    return pace_lanes(std::move(*opened), {&clock_, options_.qos, options_.window, options_.quantum_bytes});
  };
  auto opened = unpaced_.open([&](std::uint32_t n) { return side(n, false); }, region_bytes);
  if (!opened) return opened;
  return paced_.open([&](std::uint32_t n) { return side(n, true); }, region_bytes);
}

core::result<message_latency> lanes_bench::messages(lane_pair& pair, bool with_kv) {
  std::optional<flood> kv;
  if (with_kv) kv.emplace(pair, lane::kv, kv_pieces(kv_blocks), in_flight);
  auto begin = clock_.now();
  auto bytes = kv ? kv->bytes() : 0;
  auto times = ping_pong(pair, options_.time);
  if (!times) return times.error();
  auto seconds = core::to_seconds(clock_.now() - begin);
  message_latency out;
  auto at = [&](double share) {
    auto index =
        std::min(times->size() - 1, static_cast<std::size_t>(share * static_cast<double>(times->size())));
    return core::to_seconds((*times)[index]) * 1e6;
  };
  out.p50_us = at(0.5);
  out.p99_us = at(0.99);
  if (kv) {
    out.kv_gb_per_s = static_cast<double>(kv->bytes() - bytes) * 1e-9 / seconds;
    if (auto stopped = kv->stop(); !stopped) return stopped.error();
  }
  return out;
}

core::result<lane_speeds> lanes_bench::saturate(lane_pair& pair, bool with_collectives) {
  // Against collectives KV may get little: counted in smaller steps.
  auto blocks = with_collectives ? 1 : kv_blocks;
  flood kv{pair, lane::kv, kv_pieces(blocks), in_flight * kv_blocks / blocks};
  std::optional<flood> collectives;
  if (with_collectives) collectives.emplace(pair, lane::collective, collective_pieces(), 4 * in_flight);
  std::this_thread::sleep_for(options_.time / 10);
  auto begin = clock_.now();
  auto kv_before = kv.bytes();
  auto collective_before = collectives ? collectives->bytes() : 0;
  std::this_thread::sleep_for(options_.time);
  auto seconds = core::to_seconds(clock_.now() - begin);
  lane_speeds out;
  out.kv = static_cast<double>(kv.bytes() - kv_before) * 1e-9 / seconds;
  if (collectives) {
    out.collective = static_cast<double>(collectives->bytes() - collective_before) * 1e-9 / seconds;
    if (auto stopped = collectives->stop(); !stopped) return stopped.error();
  }
  if (auto stopped = kv.stop(); !stopped) return stopped.error();
  return out;
}

/// Every case once, neighbours being those that are compared.
core::result<void> lanes_bench::measure_once() {
  for (auto [pair, with_kv, to] :
       {std::tuple{&unpaced_, false, &seen_.idle}, std::tuple{&unpaced_, true, &seen_.unpaced},
        std::tuple{&paced_, true, &seen_.paced}}) {
    auto seen = messages(*pair, with_kv);
    if (!seen) return seen.error();
    to->push_back(*seen);
  }
  for (auto [pair, with_collectives, to] :
       {std::tuple{&unpaced_, false, &seen_.alone_unpaced}, std::tuple{&paced_, false, &seen_.alone_paced},
        std::tuple{&unpaced_, true, &seen_.both_unpaced}, std::tuple{&paced_, true, &seen_.both_paced}}) {
    auto seen = saturate(*pair, with_collectives);
    if (!seen) return seen.error();
    to->push_back(*seen);
  }
  return {};
}

/// What the tables give KV while of the other lanes only collectives wait.
double table_share(const core::qos_config& qos) {
  auto kv = core::find_class(qos, "kv"), collective = core::find_class(qos, "collective");
  if (kv == nullptr || collective == nullptr) return 0;
  auto quiet = qos;
  for (auto* table : {&quiet.tables.high, &quiet.tables.low})
    std::erase_if(*table, [&](auto& e) { return e.lane != kv->lane && e.lane != collective->lane; });
  return core::sure_shares(quiet)[kv->lane];
}

core::result<lanes_report> lanes_bench::run() {
  if (auto opened = open(); !opened) return opened.error();
  for (std::uint32_t i = 0; i < options_.repeats; ++i)
    if (auto measured = measure_once(); !measured) return measured.error();
  lanes_report out;
  out.idle = median(seen_.idle);
  out.unpaced = median(seen_.unpaced);
  out.paced = median(seen_.paced);
  out.unpaced_over_idle = median_ratio(seen_.unpaced, seen_.idle);
  out.paced_over_idle = median_ratio(seen_.paced, seen_.idle);
  out.kv_alone_unpaced = median(seen_.alone_unpaced).kv;
  out.kv_alone_paced = median(seen_.alone_paced).kv;
  out.kv_alone_ratio = median_ratio(seen_.alone_paced, seen_.alone_unpaced, &lane_speeds::kv);
  out.both_unpaced = median(seen_.both_unpaced);
  out.both_paced = median(seen_.both_paced);
  out.kv_table_share = table_share(options_.qos);
  return out;
}

} // namespace

core::result<lanes_report> measure_lanes(const lanes_bench_options& options) {
  return lanes_bench{options}.run();
}

} // namespace dualpath::net

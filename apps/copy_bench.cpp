#include "apps/copy_bench.hpp"

#include "apps/cluster_devices.hpp"
#include "apps/engine_copies.hpp"
#include "core/clock.hpp"
#include "core/cpu_time.hpp"
#include "kernels/host_memory.hpp"

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <vector>

namespace dualpath::apps {

namespace {

using stopwatch = std::chrono::steady_clock;
using kernels::copy_op;

double seconds_since(stopwatch::time_point start) {
  return std::chrono::duration<double>(stopwatch::now() - start).count();
}

/// Host memory, device memory, and the copies there and back. The pieces lie in the device in reverse.
struct bench_memory {
  std::unique_ptr<kernels::device_memory> host, device, back;
  std::vector<copy_op> inward, outward;

  core::result<void> allocate(kernels::compute_device& on, const copy_bench_options& options) {
    auto bytes = options.piece_bytes * options.pieces;
    for (auto* each : {&host, &back}) {
      auto allocated = kernels::allocate_host_memory(bytes);
      if (!allocated) return allocated.error();
      *each = std::move(*allocated);
    }
    auto allocated = on.allocate(bytes);
    if (!allocated) return allocated.error();
    device = std::move(*allocated);
    auto from = host->bytes();
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 131 + (i >> 12));
    for (std::uint32_t i = 0; i < options.pieces; ++i) {
      auto here = i * options.piece_bytes, there = (options.pieces - 1 - i) * options.piece_bytes;
      inward.push_back({device->bytes().data() + there, from.data() + here, options.piece_bytes});
      outward.push_back({back->bytes().data() + here, device->bytes().data() + there, options.piece_bytes});
    }
    return {};
  }
  std::vector<std::span<std::byte>> all() { return {host->bytes(), device->bytes(), back->bytes()}; }
};

/// Adds the time until the call returns to `submit_s`.
core::result<void> copy_once(kernels::compute_device& device, std::vector<copy_op> ops, double& submit_s) {
  std::promise<core::result<void>> ended;
  auto start = stopwatch::now();
  device.copy(std::move(ops), [&](core::result<void> done) { ended.set_value(std::move(done)); });
  submit_s += seconds_since(start);
  return ended.get_future().get();
}

core::result<copy_cost> measure(kernels::compute_device& device, bench_memory& memory, std::uint32_t rounds) {
  std::memset(memory.back->bytes().data(), 0, memory.back->bytes().size());
  double warm_up_s = 0, submit_s = 0;
  for (auto* ops : {&memory.inward, &memory.outward})
    if (auto done = copy_once(device, *ops, warm_up_s); !done) return done.error();
  auto cpu_s = core::process_cpu_seconds();
  auto start = stopwatch::now();
  for (std::uint32_t i = 0; i < rounds; ++i)
    for (auto* ops : {&memory.inward, &memory.outward})
      if (auto done = copy_once(device, *ops, submit_s); !done) return done.error();
  auto took_s = seconds_since(start);
  auto copies = 2.0 * rounds;
  auto bytes = static_cast<double>(memory.host->bytes().size());
  if (std::memcmp(memory.host->bytes().data(), memory.back->bytes().data(), memory.host->bytes().size()) != 0)
    return core::error{core::errc::io, "copies to the device and back left wrong bytes"};
  return copy_cost{submit_s / copies * 1e9, (core::process_cpu_seconds() - cpu_s) / copies * 1e6,
                   bytes * copies / took_s / 1e9};
}

double measure_memcpy_ns(bench_memory& memory, std::uint32_t rounds) {
  auto bytes = memory.host->bytes().size();
  auto start = stopwatch::now();
  for (std::uint32_t i = 0; i < rounds; ++i) {
    auto piece = bytes / memory.inward.size();
    for (std::size_t at = 0; at < bytes; at += piece)
      std::memcpy(memory.back->bytes().data() + at, memory.host->bytes().data() + at, piece);
  }
  return seconds_since(start) / rounds * 1e9;
}

core::result<run_options> device_options(const copy_bench_options& options) {
  auto resolved = resolve_for_node({});
  if (resolved) resolved->compute = options.compute;
  return resolved;
}

} // namespace

core::result<copy_bench_result> bench_copies(const copy_bench_options& options) {
  if (options.pieces == 0 || options.piece_bytes == 0 || options.rounds == 0)
    return core::error{core::errc::invalid_argument,
                       "a copy needs at least one piece of one byte and one round"};
  auto run = device_options(options);
  if (!run) return run.error();
  auto source = open_compute_source(*run);
  if (!source) return source.error();
  core::steady_clock clock;
  auto device = make_compute(*run, *source, clock);
  if (!device) return device.error();
  bench_memory memory;
  if (auto allocated = memory.allocate(**device, options); !allocated) return allocated.error();
  copy_bench_result result;
  auto own = measure(**device, memory, options.rounds);
  if (!own) return own.error();
  result.device = *own;
  result.memcpy_ns = measure_memcpy_ns(memory, options.rounds);

  net::verbs_copy* verbs = nullptr;
  auto chosen = choose_copies(options.copies, run->qos, std::move(*device), memory.all(),
                              [&](const net::verbs_copy_options& how) {
                                auto opened = net::open_verbs_copy(how);
                                verbs = opened ? opened->get() : nullptr;
                                return opened;
                              });
  if (!chosen) return chosen.error();
  result.choice = chosen->made_with;
  result.reason = chosen->reason;
  auto cost = measure(*chosen->device, memory, options.rounds);
  if (!cost) return cost.error();
  result.chosen = *cost;
  if (chosen->reason.empty())
    result.doorbells = static_cast<double>(verbs->counters().doorbells) / (2.0 * (options.rounds + 1));
  return result;
}

} // namespace dualpath::apps

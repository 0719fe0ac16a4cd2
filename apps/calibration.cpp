#include "apps/calibration.hpp"

#include "core/page_memory.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace dualpath::apps {

namespace {

using wall = std::chrono::steady_clock;

double seconds_since(wall::time_point start) {
  return std::chrono::duration<double>(wall::now() - start).count();
}

constexpr double short_queue_s = 3, overload_s = 5; // spec §7

struct shape {
  std::uint32_t cached, computed;
};
// Small enough to take well under a second on a CPU, far enough apart to tell the three coefficients.
constexpr shape shapes[] = {{0, 16}, {0, 64}, {0, 192}, {512, 16}, {512, 64}, {1024, 32}};

core::result<double> time_prefill(kernels::compute_device& device, shape s) {
  auto layout = device.layout();
  auto total = s.cached + s.computed;
  auto memory = device.allocate(layout.blocks_for(total) * layout.layer_block_bytes());
  if (!memory) return memory.error();
  kernels::kv_view view; // one layer's memory serves all layers: only the time counts
  for (std::uint64_t b = 0; b < layout.blocks_for(total); ++b)
    view.blocks.push_back((*memory)->bytes().data() + b * layout.layer_block_bytes());
  std::vector<core::token_id> tokens(total);
  for (std::uint32_t i = 0; i < total; ++i) tokens[i] = (i * 7919u) % device.model().vocabulary;
  kernels::sequence sequence{tokens};
  kernels::batch_entry entry;
  entry.tokens = &sequence;
  entry.first_position = entry.unseen_from = s.cached;
  entry.token_count = s.computed;
  double best = 0;
  for (int round = 0; round < 2; ++round) {
    auto pass = device.begin({entry});
    auto start = wall::now();
    core::result<void> result;
    for (std::uint32_t layer = 0; layer < layout.layers && result; ++layer) {
      std::promise<core::result<void>> done;
      device.run_layers(*pass, layer, 1, {view}, [&](core::result<void> r) { done.set_value(std::move(r)); });
      result = done.get_future().get();
    }
    if (!result) return result.error();
    auto seconds = seconds_since(start);
    best = round == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

} // namespace

core::result<core::attention_cost_model> measure_prefill(kernels::compute_device& device) {
  std::vector<core::cost_sample> samples;
  for (auto s : shapes) {
    if (s.cached + s.computed > device.model().max_tokens) continue;
    core::cost_sample sample{s.cached, s.computed, device.predicted_seconds(s.cached, s.computed)};
    if (sample.seconds < 0) {
      auto measured = time_prefill(device, s);
      if (!measured) return measured.error();
      sample.seconds = *measured;
    }
    samples.push_back(sample);
  }
  return core::fit_cost_model(samples);
}

core::result<double> measure_read_rate(storage::block_store& store) {
  auto padded = storage::padded_bytes(store.payload_bytes());
  constexpr std::uint64_t probe_bytes = 32ULL << 20;
  auto count = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(probe_bytes / padded, 4, 64));
  auto memory = core::page_memory::allocate(padded * count);
  if (!memory) return core::error{core::errc::no_space, "no memory to measure the block store"};
  std::ranges::fill(memory.bytes(), std::byte{0x5a});
  auto buffer = [&](std::uint32_t i) { return memory.bytes().subspan(i * padded, padded); };
  auto name = [](std::uint32_t i) {
    storage::block_name n;
    n.key.bytes.fill(0xff);
    n.key.bytes[0] = static_cast<std::uint8_t>(i);
    return n;
  };
  // All at once, as a loaded NIC would.
  auto for_all = [&](auto start_one) {
    std::vector<std::promise<core::result<void>>> done(count);
    for (std::uint32_t i = 0; i < count; ++i)
      start_one(i, [&done, i](core::result<void> r) { done[i].set_value(std::move(r)); });
    core::result<void> first_failure;
    for (auto& each : done)
      if (auto r = each.get_future().get(); !r && first_failure) first_failure = r;
    return first_failure;
  };
  auto written = for_all([&](auto i, auto done) { store.write(name(i), buffer(i), done); });
  auto start = wall::now();
  auto read =
      written ? for_all([&](auto i, auto done) { store.read(name(i).key, buffer(i), done); }) : written;
  auto seconds = seconds_since(start);
  (void)for_all([&](auto i, auto done) { store.remove(name(i).key, done); });
  if (!read) return read.error();
  return static_cast<double>(store.payload_bytes()) * count / seconds;
}

core::prefill_thresholds derive_thresholds(const core::attention_cost_model& prefill, double read_bytes_per_s,
                                           const core::block_layout& layout, const core::trace_stats& trace) {
  auto token_bytes = static_cast<double>(layout.token_bytes) * layout.layers;
  auto computed = std::max(1.0, trace.mean_append);
  auto cached = std::max(0.0, trace.mean_context - computed);
  auto seconds = prefill.seconds(static_cast<std::uint64_t>(cached), static_cast<std::uint64_t>(computed));
  core::prefill_thresholds thresholds;
  thresholds.short_queue_tokens = static_cast<std::uint64_t>(short_queue_s * read_bytes_per_s / token_bytes);
  constexpr double most = 1e15; // a device that takes no time
  auto tokens = seconds > 0 ? overload_s * (cached + computed) / seconds : most;
  thresholds.overload_tokens = static_cast<std::uint64_t>(std::min(tokens, most));
  return thresholds;
}

} // namespace dualpath::apps

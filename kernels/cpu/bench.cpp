#include "kernels/cpu/bench.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

namespace dualpath::kernels {
namespace {

using seconds = std::chrono::duration<double>;

class bench_run {
public:
  bench_run(compute_device& device, std::uint32_t tokens) : device_{device} {
    for (std::uint32_t i = 0; i < tokens; ++i)
      tokens_.append(static_cast<core::token_id>(sequence::mix(i) % device.model().vocabulary));
  }

  core::result<void> allocate() {
    auto layout = device_.layout();
    auto blocks = layout.blocks_for(tokens_.size());
    auto memory = device_.allocate(blocks * layout.full_block_bytes());
    if (!memory) return memory.error();
    memory_ = std::move(*memory);
    for (std::uint64_t i = 0; i < blocks; ++i)
      view_.blocks.push_back(memory_->bytes().data() + i * layout.full_block_bytes());
    view_.layer_stride_bytes = layout.layer_block_bytes();
    return {};
  }

  /// Seconds that computing [first, first + count) and one token after it takes.
  core::result<double> time(std::uint32_t first, std::uint32_t count) {
    auto start = std::chrono::steady_clock::now();
    auto pass = device_.begin({batch_entry{&tokens_, first, count, first, true, {}}});
    std::promise<core::result<void>> layers;
    device_.run_layers(*pass, 0, device_.model().layers, {view_},
                       [&](core::result<void> outcome) { layers.set_value(std::move(outcome)); });
    if (auto outcome = layers.get_future().get(); !outcome) return outcome.error();
    std::promise<core::result<std::vector<core::token_id>>> sampled;
    device_.sample(*pass, [&](auto outcome) { sampled.set_value(std::move(outcome)); });
    if (auto outcome = sampled.get_future().get(); !outcome) return outcome.error();
    return seconds{std::chrono::steady_clock::now() - start}.count();
  }

private:
  compute_device& device_;
  sequence tokens_;
  std::unique_ptr<device_memory> memory_;
  kv_view view_;
};

} // namespace

core::result<compute_bench_result> bench_device(compute_device& device, std::uint64_t active_parameters,
                                                const compute_bench_options& options) {
  auto tokens = std::max(options.prefill_tokens, options.context_tokens + options.decode_tokens);
  bench_run run{device, tokens};
  if (auto made = run.allocate(); !made) return made.error();
  double prefill_s = 0;
  double decode_s = 0;
  // Decoding needs all of its context computed once.
  if (auto filled = run.time(0, std::max(options.context_tokens, 1U)); !filled) return filled.error();
  for (std::uint32_t i = 0; i < std::max(options.repeats, 1U); ++i) {
    auto prefill = run.time(0, options.prefill_tokens);
    if (!prefill) return prefill.error();
    prefill_s = i == 0 ? *prefill : std::min(prefill_s, *prefill);
    double sum = 0;
    for (std::uint32_t t = 0; t < options.decode_tokens; ++t) {
      auto step = run.time(options.context_tokens + t, 1);
      if (!step) return step.error();
      sum += *step;
    }
    decode_s = i == 0 ? sum : std::min(decode_s, sum);
  }
  compute_bench_result result;
  result.prefill_tokens_per_s = options.prefill_tokens / prefill_s;
  result.decode_tokens_per_s = options.decode_tokens / decode_s;
  result.prefill_gflop_per_s = result.prefill_tokens_per_s * 2e-9 * static_cast<double>(active_parameters);
  return result;
}

core::result<compute_bench_result> bench_compute(std::shared_ptr<const model_weights> model,
                                                 const cpu_options& device,
                                                 const compute_bench_options& options) {
  // The head runs for one row of a prefill only.
  auto parameters =
      model->config.active_parameters() - std::uint64_t{model->config.hidden} * model->config.vocabulary;
  auto made = make_cpu_device(std::move(model), device);
  if (!made) return made.error();
  return bench_device(**made, parameters, options);
}

} // namespace dualpath::kernels

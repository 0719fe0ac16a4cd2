#include "kernels/cpu/cpu_device.hpp"

#include "kernels/cpu/sampler.hpp"
#include "kernels/host_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace dualpath::kernels {
namespace {

std::shared_ptr<thread_pool> pool_for(const cpu_options& options) {
  if (options.pool) return options.pool;
  auto cores = std::max(1U, std::thread::hardware_concurrency());
  return std::make_shared<thread_pool>(options.threads ? options.threads : cores);
}

const core::error closed{core::errc::closed, "the compute device is shutting down"};

} // namespace

cpu_device::cpu_device(std::shared_ptr<const model_weights> weights, const cpu_options& options)
    : info_{weights->name,
            weights->fingerprint(options.kv_dtype),
            weights->config.layers,
            weights->token_bytes(options.kv_dtype),
            weights->config.vocabulary,
            weights->config.max_tokens},
      block_tokens_{options.block_tokens},
      pool_{pool_for(options)},
      forward_{std::move(weights), options.kv_dtype, options.block_tokens, best_kernels(), *pool_} {}

core::result<std::unique_ptr<device_memory>> cpu_device::allocate(std::uint64_t bytes) {
  if (bytes == 0) return core::error{core::errc::invalid_argument, "device memory of 0 bytes asked for"};
  return allocate_host_memory(bytes);
}

std::unique_ptr<forward_pass> cpu_device::begin(std::vector<batch_entry> entries) {
  return forward_.begin(std::move(entries));
}

void cpu_device::run_layers(forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                            std::vector<kv_view> views, done on_done) {
  passes_.push([this, &pass, first_layer, layer_count, views = std::move(views),
                on_done = std::move(on_done)](bool run) {
    if (!run) return on_done(closed);
    on_done(forward_.run_layers(static_cast<cpu_pass&>(pass), first_layer, layer_count, views));
  });
}

core::result<std::vector<core::token_id>> cpu_device::sample_now(cpu_pass& pass) {
  auto logits = forward_.logits(pass, logits_of::wanted);
  if (!logits) return logits.error();
  std::vector<core::token_id> tokens;
  for (std::size_t i = 0; i < logits->rows.size(); ++i) {
    const auto& row = pass.rows()[logits->rows[i]];
    tokens.push_back(
        sample_token(logits->row(i), pass.entries()[row.entry].sampling, row.position + 1, best_kernels()));
  }
  return tokens;
}

void cpu_device::sample(forward_pass& pass, sampled on_done) {
  passes_.push([this, &pass, on_done = std::move(on_done)](bool run) {
    if (!run) return on_done(closed);
    on_done(sample_now(static_cast<cpu_pass&>(pass)));
  });
}

void cpu_device::copy(std::vector<copy_op> copies, done on_done) {
  copies_.push([copies = std::move(copies), on_done = std::move(on_done)](bool run) {
    if (!run) return on_done(closed);
    for (const auto& op : copies) std::memcpy(op.target, op.source, op.bytes);
    on_done({});
  });
}

core::result<std::unique_ptr<compute_device>> make_cpu_device(std::shared_ptr<const model_weights> weights,
                                                              const cpu_options& options) {
  if (options.block_tokens == 0) return core::error{core::errc::invalid_argument, "a block size of 0 tokens"};
  return std::unique_ptr<compute_device>{std::make_unique<cpu_device>(std::move(weights), options)};
}

} // namespace dualpath::kernels

#include "kernels/cuda/cuda_device.hpp"

#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/sampler.hpp"
#include "kernels/cuda/cuda_error.hpp"
#include "kernels/cuda/forward.hpp"
#include "kernels/cuda/stream_lane.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace dualpath::kernels {
namespace {

using cuda::held_memory;

/// Not the name of the weights alone: GPU and CPU rows are meant to be equal, and must not mix where they are
/// not.
core::model_fingerprint fingerprint_of(const model_weights& weights, kv_dtype type) {
  auto of_weights = weights.fingerprint(type);
  std::string facts{"dualpath-cuda-1"};
  facts.append(reinterpret_cast<const char*>(of_weights.bytes.data()), of_weights.bytes.size());
  return {core::digest128(std::as_bytes(std::span{facts}))};
}

core::result<std::vector<core::token_id>> sample_logits(const cuda::cuda_pass& pass,
                                                        const cuda::logit_download& logits) {
  std::vector<core::token_id> tokens;
  for (std::uint32_t i = 0; i < logits.rows; ++i) {
    auto row = pass.plan().rows[pass.plan().sampled_rows[i]];
    if (!std::ranges::all_of(logits.row(i), [](float x) { return std::isfinite(x); }))
      return core::error{core::errc::corrupt,
                         "a logit after position " + std::to_string(row.position)
                             + " is not a finite number; the weights or the KV-cache are damaged"};
    tokens.push_back(
        sample_token(logits.row(i), pass.entries()[row.entry].sampling, row.position + 1, best_kernels()));
  }
  return tokens;
}

class cuda_device final : public compute_device {
public:
  cuda_device(const std::shared_ptr<const model_weights>& weights,
              std::unique_ptr<cuda::device_weights> on_device, const cuda_options& options,
              std::shared_ptr<cuda::stream> compute, std::shared_ptr<cuda::stream> copies)
      : info_{weights->name,
              fingerprint_of(*weights, options.kv_dtype),
              weights->config.layers,
              weights->token_bytes(options.kv_dtype),
              weights->config.vocabulary,
              weights->config.max_tokens},
        options_{options},
        forward_{weights, std::move(on_device), options.kv_dtype, options.block_tokens, compute},
        copy_stream_{copies},
        compute_lane_{std::move(compute)},
        copy_lane_{std::move(copies)} {}

  const model_info& model() const override { return info_; }
  std::uint32_t block_tokens() const override { return options_.block_tokens; }

  core::result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes) override {
    return cuda::allocate_device_memory(options_.device, bytes);
  }

  std::unique_ptr<forward_pass> begin(std::vector<batch_entry> entries) override {
    return forward_.begin(std::move(entries));
  }

  void run_layers(forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                  std::vector<kv_view> views, done on_done) override {
    compute_lane_.submit(
        {[this, &pass, first_layer, layer_count, views = std::move(views)](held_memory& held) {
           return forward_.run_layers(static_cast<cuda::cuda_pass&>(pass), first_layer, layer_count, views,
                                      held);
         },
         std::move(on_done)});
  }

  void sample(forward_pass& pass, sampled on_done) override;
  void copy(std::vector<copy_op> copies, done on_done) override;
  double predicted_seconds(std::uint64_t, std::uint64_t) const override { return -1; }
  bool verifies_kv() const override { return false; }

private:
  model_info info_;
  cuda_options options_;
  cuda::cuda_forward forward_;
  std::shared_ptr<cuda::stream> copy_stream_;
  cuda::stream_lane compute_lane_, copy_lane_;
};

void cuda_device::sample(forward_pass& pass, sampled on_done) {
  auto& own = static_cast<cuda::cuda_pass&>(pass);
  auto logits = std::make_shared<cuda::logit_download>();
  auto queue = [this, &own, logits](held_memory& held) -> core::result<void> {
    auto queued = forward_.logits(own, held);
    if (!queued) return queued.error();
    *logits = std::move(*queued);
    return {};
  };
  auto complete = [&own, logits, on_done = std::move(on_done)](core::result<void> outcome) {
    if (!outcome) return on_done(outcome.error());
    auto tokens = sample_logits(own, *logits);
    logits->memory.reset();
    on_done(std::move(tokens));
  };
  compute_lane_.submit({std::move(queue), std::move(complete)});
}

void cuda_device::copy(std::vector<copy_op> copies, done on_done) {
  auto queue = [this, copies = std::move(copies)](held_memory&) -> core::result<void> {
    for (auto& op : copies) {
      auto code = cudaMemcpyAsync(op.target, op.source, op.bytes, cudaMemcpyDefault, copy_stream_->get());
      if (code != cudaSuccess)
        return cuda::error_of(code, "a copy of " + std::to_string(op.bytes) + " bytes");
    }
    return {};
  };
  copy_lane_.submit({std::move(queue), std::move(on_done)});
}

core::result<void> check_options(const model_weights& weights, const cuda_options& options) {
  auto devices = cuda_device_count();
  if (devices == 0)
    return core::error{core::errc::unsupported,
                       "no CUDA device: this machine has no NVIDIA GPU or no driver for it; "
                       "use the CPU device"};
  if (options.device < 0 || options.device >= devices)
    return core::error{core::errc::invalid_argument, "CUDA device " + std::to_string(options.device)
                                                         + " does not exist: there are "
                                                         + std::to_string(devices)};
  if (options.block_tokens == 0) return core::error{core::errc::invalid_argument, "a block size of 0 tokens"};
  if (weights.config.head_dim > cuda::max_head_dim)
    return core::error{core::errc::unsupported, "heads of " + std::to_string(weights.config.head_dim)
                                                    + " dimensions; the CUDA kernels take at most "
                                                    + std::to_string(cuda::max_head_dim)};
  return {};
}

/// Freed memory stays with the process, because passes ask for it again at once.
core::result<void> keep_freed_memory(int device) {
  cudaMemPool_t pool = nullptr;
  std::uint64_t everything = ~std::uint64_t{0};
  cuda::call_sequence calls;
  calls.then("choosing the device", [&] { return cudaSetDevice(device); })
      .then("finding the memory pool", [&] { return cudaDeviceGetDefaultMemPool(&pool, device); })
      .then("setting up the memory pool",
            [&] { return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything); });
  return calls.outcome();
}

} // namespace

int cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

core::result<std::unique_ptr<compute_device>> make_cuda_device(std::shared_ptr<const model_weights> weights,
                                                               const cuda_options& options) {
  if (auto valid = check_options(*weights, options); !valid) return valid.error();
  if (auto ready = keep_freed_memory(options.device); !ready) return ready.error();
  auto on_device = cuda::device_weights::load(*weights, options.device);
  if (!on_device) return on_device.error();
  auto compute = cuda::stream::make(options.device);
  if (!compute) return compute.error();
  auto copies = cuda::stream::make(options.device);
  if (!copies) return copies.error();
  return std::unique_ptr<compute_device>{std::make_unique<cuda_device>(
      weights, std::move(*on_device), options, std::move(*compute), std::move(*copies))};
}

} // namespace dualpath::kernels

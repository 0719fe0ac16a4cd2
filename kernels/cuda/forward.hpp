// The forward pass on a CUDA device: checks, uploads and the order of kernels. Everything is queued on one
// stream from one thread and returns before the device has done it.
#pragma once

#include "core/result.hpp"
#include "kernels/compute.hpp"
#include "kernels/cpu/rope.hpp"
#include "kernels/cuda/batch_plan.hpp"
#include "kernels/cuda/cuda_error.hpp"
#include "kernels/cuda/device_weights.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/stream_lane.hpp"
#include "kernels/model/model_weights.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dualpath::kernels::cuda {

class cuda_pass final : public forward_pass {
public:
  const std::vector<batch_entry>& entries() const { return entries_; }
  const batch_plan& plan() const { return plan_; }

private:
  friend class cuda_forward;
  std::vector<batch_entry> entries_;
  std::vector<core::token_id> tokens_; ///< of each row
  batch_plan plan_;
  std::uint32_t next_layer_ = 0;
  std::optional<core::error> failure_; ///< what was wrong with the entries; told by the first operation
  stream_buffer device_;               ///< made when layer 0 is queued
  std::uint64_t hidden_at_ = 0, angles_at_ = 0, rows_at_ = 0, tasks_at_ = 0, merges_at_ = 0, sampled_at_ = 0;
};

/// Logits on their way to the host: [rows][vocabulary], in entry order.
struct logit_download {
  std::shared_ptr<std::byte> memory;
  std::uint32_t rows = 0;
  std::uint32_t vocabulary = 0;

  std::span<const float> row(std::uint32_t index) const {
    return {reinterpret_cast<const float*>(memory.get()) + std::size_t{index} * vocabulary, vocabulary};
  }
};

class cuda_forward {
public:
  cuda_forward(std::shared_ptr<const model_weights> weights, std::unique_ptr<device_weights> on_device,
               kv_dtype type, std::uint32_t block_tokens, std::shared_ptr<stream> on);

  /// Copies the tokens; never fails, the first operation reports bad entries.
  std::unique_ptr<cuda_pass> begin(std::vector<batch_entry> entries) const;
  core::result<void> run_layers(cuda_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                                std::span<const kv_view> views, held_memory& held);
  /// The logits may be read once the stream has done what is queued.
  core::result<logit_download> logits(const cuda_pass& pass, held_memory& held);

private:
  struct layer_run {
    cuda_pass& pass;
    std::uint32_t layer;
    const batch_step& step;
    kv_table kv;
  };

  std::optional<core::error> check_views(const cuda_pass& pass, std::uint32_t first_layer,
                                         std::uint32_t layer_count, std::span<const kv_view> views) const;
  core::result<void> prepare(cuda_pass& pass, held_memory& held);
  core::result<void> reserve(const batch_plan& plan);
  core::result<stream_buffer> upload_views(std::span<const kv_view> views, kv_table& kv, held_memory& held);
  core::result<void> run_layer(const layer_run& run);
  void run_attention(call_sequence& calls, const layer_run& run);
  norm_args norm(const float* from, const float* weight, std::uint32_t rows) const;

  std::shared_ptr<const model_weights> weights_;
  std::unique_ptr<device_weights> device_weights_;
  kv_dtype type_;
  std::uint32_t block_tokens_;
  std::shared_ptr<stream> stream_;
  std::shared_ptr<pinned_pool> pinned_ = std::make_shared<pinned_pool>();
  head_shape shape_;
  rope rope_;

  std::size_t hidden_, qkv_width_, gate_up_width_, mlp_width_;
  // What lies between the kernels of a layer; reused by every step, in stream order.
  stream_buffer normalised_, qkv_, heads_, gate_up_, mlp_, partials_;
};

} // namespace dualpath::kernels::cuda

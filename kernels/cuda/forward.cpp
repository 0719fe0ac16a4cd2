#include "kernels/cuda/forward.hpp"

#include "kernels/cuda/cuda_error.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace dualpath::kernels::cuda {
namespace {

core::error invalid(std::string text) { return {core::errc::invalid_argument, std::move(text)}; }

std::optional<core::error> check_entry(const batch_entry& entry, std::size_t index,
                                       const model_config& config) {
  auto what = "batch entry " + std::to_string(index);
  auto end = std::uint64_t{entry.first_position} + entry.token_count;
  if (!entry.tokens) return invalid(what + " has no sequence");
  if (entry.token_count == 0) return invalid(what + " computes no token");
  if (end > entry.tokens->size())
    return invalid(what + " computes up to token " + std::to_string(end) + " of a sequence of "
                   + std::to_string(entry.tokens->size()));
  if (end > config.max_tokens)
    return invalid(what + " reaches " + std::to_string(end) + " tokens but the model takes at most "
                   + std::to_string(config.max_tokens));
  for (auto token : entry.tokens->tokens(entry.first_position, entry.token_count))
    if (token >= config.vocabulary)
      return invalid(what + " holds token id " + std::to_string(token) + " but the vocabulary ends at "
                     + std::to_string(config.vocabulary));
  return {};
}

/// Host memory the device cannot reach would end the process's use of the device, so the first block is
/// looked at.
std::optional<core::error> check_reachable(const kv_view& view, std::size_t index) {
  cudaPointerAttributes attributes{};
  auto code = cudaPointerGetAttributes(&attributes, view.blocks.front());
  if (code != cudaSuccess)
    return error_of(code, "looking at the KV memory of batch entry " + std::to_string(index));
  if (attributes.type != cudaMemoryTypeUnregistered) return {};
  return invalid("the KV view of batch entry " + std::to_string(index)
                 + " lies in host memory the CUDA device cannot reach: use memory from allocate()");
}

} // namespace

cuda_forward::cuda_forward(std::shared_ptr<const model_weights> weights,
                           std::unique_ptr<device_weights> on_device, kv_dtype type,
                           std::uint32_t block_tokens, std::shared_ptr<stream> on)
    : weights_{std::move(weights)},
      device_weights_{std::move(on_device)},
      type_{type},
      block_tokens_{block_tokens},
      stream_{std::move(on)},
      shape_{weights_->config.query_heads, weights_->config.kv_heads, weights_->config.head_dim},
      rope_{weights_->config.head_dim, weights_->config.rope_theta},
      hidden_{weights_->config.hidden},
      qkv_width_{std::size_t{shape_.query_width()} + 2 * shape_.kv_width()},
      gate_up_width_{weights_->layers.empty() ? 0 : weights_->layers.front().gate_up.outputs},
      mlp_width_{gate_up_width_ / 2} {}

std::unique_ptr<cuda_pass> cuda_forward::begin(std::vector<batch_entry> entries) const {
  auto pass = std::make_unique<cuda_pass>();
  for (std::size_t i = 0; i < entries.size() && !pass->failure_; ++i)
    pass->failure_ = check_entry(entries[i], i, weights_->config);
  if (entries.empty()) pass->failure_ = invalid("a batch without entries");
  pass->entries_ = std::move(entries);
  if (pass->failure_) return pass;
  for (auto& entry : pass->entries_) {
    auto tokens = entry.tokens->tokens(entry.first_position, entry.token_count);
    pass->tokens_.insert(pass->tokens_.end(), tokens.begin(), tokens.end());
  }
  pass->plan_ = plan_batch(pass->entries_, shape_);
  return pass;
}

std::optional<core::error> cuda_forward::check_views(const cuda_pass& pass, std::uint32_t first_layer,
                                                     std::uint32_t layer_count,
                                                     std::span<const kv_view> views) const {
  if (pass.failure_) return pass.failure_;
  auto layers = weights_->config.layers;
  if (first_layer != pass.next_layer_ || layer_count == 0 || layer_count > layers - first_layer)
    return invalid("layers [" + std::to_string(first_layer) + ", +" + std::to_string(layer_count)
                   + ") asked for where layer " + std::to_string(pass.next_layer_) + " of "
                   + std::to_string(layers) + " is next");
  if (views.size() != pass.entries_.size())
    return invalid(std::to_string(views.size()) + " KV views for " + std::to_string(pass.entries_.size())
                   + " batch entries");
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& entry = pass.entries_[i];
    auto name = "the KV view of batch entry " + std::to_string(i);
    auto needed = (entry.first_position + entry.token_count + block_tokens_ - 1) / block_tokens_;
    if (views[i].blocks.size() < needed)
      return invalid(name + " has " + std::to_string(views[i].blocks.size()) + " blocks but needs "
                     + std::to_string(needed));
    if (std::ranges::find(views[i].blocks, nullptr) != views[i].blocks.end())
      return invalid(name + " has a null block");
    if (layer_count > 1 && views[i].layer_stride_bytes == 0)
      return invalid(name + " holds one layer but " + std::to_string(layer_count) + " are to be computed");
    if (auto failure = check_reachable(views[i], i)) return failure;
  }
  return {};
}

core::result<void> cuda_forward::prepare(cuda_pass& pass, held_memory& held) {
  const auto& plan = pass.plan_;
  auto head_dim = weights_->config.head_dim;
  std::vector<float> hidden(plan.rows.size() * hidden_), angles(plan.rows.size() * head_dim);
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    weights_->embedding.row(pass.tokens_[r], std::span{hidden}.subspan(r * hidden_, hidden_));
    rope_.angles(plan.rows[r].position, std::span{angles}.subspan(r * head_dim, head_dim));
  }
  upload all;
  pass.hidden_at_ = all.add(std::span<const float>{hidden});
  pass.angles_at_ = all.add(std::span<const float>{angles});
  pass.rows_at_ = all.add(std::span{plan.rows});
  pass.tasks_at_ = all.add(std::span{plan.tasks});
  pass.merges_at_ = all.add(std::span{plan.merges});
  pass.sampled_at_ = all.add(std::span{plan.sampled_rows});
  auto sent = all.send(stream_, *pinned_, held);
  if (!sent) return sent.error();
  pass.device_ = std::move(*sent);
  return {};
}

core::result<void> cuda_forward::reserve(const batch_plan& plan) {
  std::uint32_t rows = 0;
  std::uint64_t partial_bytes = 0;
  for (auto& step : plan.steps) {
    rows = std::max(rows, step.row_count);
    partial_bytes = std::max(partial_bytes,
                             step.partial_count * partial_floats(shape_, step.partial_rows) * sizeof(float));
  }
  struct need {
    stream_buffer& buffer;
    std::uint64_t bytes;
  };
  auto row_bytes = [&](std::size_t width) { return std::uint64_t{rows} * width * sizeof(float); };
  for (auto& [buffer, bytes] :
       {need{normalised_, row_bytes(hidden_)}, need{qkv_, row_bytes(qkv_width_)},
        need{heads_, row_bytes(shape_.query_width())}, need{gate_up_, row_bytes(gate_up_width_)},
        need{mlp_, row_bytes(mlp_width_)}, need{partials_, partial_bytes}}) {
    if (bytes <= buffer.size()) continue;
    auto larger = stream_buffer::make(stream_, bytes);
    if (!larger) return larger.error();
    buffer = std::move(*larger);
  }
  return {};
}

core::result<stream_buffer> cuda_forward::upload_views(std::span<const kv_view> views, kv_table& kv,
                                                       held_memory& held) {
  std::vector<std::byte*> blocks;
  std::vector<std::uint32_t> first_block;
  std::vector<std::uint64_t> stride;
  for (auto& view : views) {
    first_block.push_back(static_cast<std::uint32_t>(blocks.size()));
    stride.push_back(view.layer_stride_bytes);
    blocks.insert(blocks.end(), view.blocks.begin(), view.blocks.end());
  }
  upload all;
  auto blocks_at = all.add(std::span<std::byte* const>{blocks});
  auto first_at = all.add(std::span<const std::uint32_t>{first_block});
  auto stride_at = all.add(std::span<const std::uint64_t>{stride});
  auto sent = all.send(stream_, *pinned_, held);
  if (!sent) return sent.error();
  kv.blocks = sent->at<std::byte*>(blocks_at);
  kv.first_block = sent->at<std::uint32_t>(first_at);
  kv.layer_stride = sent->at<std::uint64_t>(stride_at);
  kv.block_tokens = block_tokens_;
  kv.token_bytes = weights_->token_bytes(type_);
  kv.bf16 = type_ == kv_dtype::bf16;
  return sent;
}

core::result<void> cuda_forward::run_layers(cuda_pass& pass, std::uint32_t first_layer,
                                            std::uint32_t layer_count, std::span<const kv_view> views,
                                            held_memory& held) {
  if (auto failure = check_views(pass, first_layer, layer_count, views)) return *failure;
  if (first_layer == 0)
    if (auto ready = prepare(pass, held); !ready) return ready;
  if (auto ready = reserve(pass.plan_); !ready) return ready;
  kv_table kv;
  auto view_memory = upload_views(views, kv, held);
  if (!view_memory) return view_memory.error();
  for (auto layer = first_layer; layer < first_layer + layer_count; ++layer) {
    kv.layer = layer;
    for (auto& step : pass.plan_.steps)
      if (auto ran = run_layer({pass, layer, step, kv}); !ran) return ran;
  }
  pass.next_layer_ += layer_count;
  return {};
}

norm_args cuda_forward::norm(const float* from, const float* weight, std::uint32_t rows) const {
  return {from,
          nullptr,
          rows,
          weights_->config.hidden,
          weight,
          weights_->config.norm_epsilon,
          normalised_.at<float>(0)};
}

core::result<void> cuda_forward::run_layer(const layer_run& run) {
  const auto& weights = device_weights_->layers[run.layer];
  const auto& device = run.pass.device_;
  auto rows = run.step.row_count;
  auto* hidden = device.at<float>(run.pass.hidden_at_) + run.step.first_row * hidden_;
  auto* qkv = qkv_.at<float>(0);
  rotate_args rotate{qkv,
                     device.at<float>(run.pass.angles_at_)
                         + std::size_t{run.step.first_row} * shape_.head_dim,
                     device.at<row_info>(run.pass.rows_at_) + run.step.first_row,
                     rows,
                     shape_,
                     run.kv};
  auto project = [&](const device_matrix& matrix, const stream_buffer& a, std::size_t a_stride, float* c,
                     std::size_t c_stride, bool add) {
    return [=, this, &matrix, from = a.at<float>(0)] {
      return launch_gemm(stream_->get(), matrix.product(from, a_stride, rows, c, c_stride, add));
    };
  };
  call_sequence calls;
  calls
      .then("attention norm",
            [&] { return launch_rms_norm(stream_->get(), norm(hidden, weights.attention_norm, rows)); })
      .then("qkv projection", project(weights.qkv, normalised_, hidden_, qkv, qkv_width_, false))
      .then("rotary positions", [&] { return launch_rotate_and_store(stream_->get(), rotate); });
  run_attention(calls, run);
  calls
      .then("output projection", project(weights.output, heads_, shape_.query_width(), hidden, hidden_, true))
      .then("mlp norm", [&] { return launch_rms_norm(stream_->get(), norm(hidden, weights.mlp_norm, rows)); })
      .then("gate and up projection",
            project(weights.gate_up, normalised_, hidden_, gate_up_.at<float>(0), gate_up_width_, false))
      .then("activation",
            [&] {
              return launch_silu_multiply(
                  stream_->get(), gate_up_.at<float>(0), rows,
                  static_cast<std::uint32_t>(mlp_width_ / packed_matrix::panel_columns), mlp_.at<float>(0));
            })
      .then("down projection", project(weights.down, mlp_, mlp_width_, hidden, hidden_, true));
  return calls.outcome();
}

void cuda_forward::run_attention(call_sequence& calls, const layer_run& run) {
  const auto& device = run.pass.device_;
  attention_args args;
  args.queries = qkv_.at<float>(0);
  args.query_stride = qkv_width_;
  args.output = heads_.at<float>(0);
  args.tasks = device.at<attention_task>(run.pass.tasks_at_) + run.step.first_task;
  args.task_count = run.step.task_count;
  args.kv = run.kv;
  args.shape = shape_;
  args.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
  args.partials = partials_.at<float>(0);
  args.partial_rows = run.step.partial_rows;
  calls.then("attention", [&] { return launch_attention(stream_->get(), args); });
  if (run.step.merge_count == 0) return;
  args.tasks = device.at<attention_task>(run.pass.merges_at_) + run.step.first_merge;
  args.task_count = run.step.merge_count;
  calls.then("joining attention segments", [&] { return launch_attention_merge(stream_->get(), args); });
}

core::result<logit_download> cuda_forward::logits(const cuda_pass& pass, held_memory& held) {
  if (pass.failure_) return *pass.failure_;
  if (pass.next_layer_ != weights_->config.layers)
    return invalid("logits asked for after " + std::to_string(pass.next_layer_) + " of "
                   + std::to_string(weights_->config.layers) + " layers");
  logit_download out;
  out.rows = static_cast<std::uint32_t>(pass.plan_.sampled_rows.size());
  out.vocabulary = weights_->config.vocabulary;
  if (out.rows == 0) return out;
  auto bytes = std::uint64_t{out.rows} * out.vocabulary * sizeof(float);
  auto host = pinned_->acquire(bytes);
  if (!host) return host.error();
  out.memory = std::move(*host);
  held.push_back(out.memory);
  auto last = stream_buffer::make(stream_, std::uint64_t{out.rows} * hidden_ * sizeof(float));
  if (!last) return last.error();
  auto on_device = stream_buffer::make(stream_, bytes);
  if (!on_device) return on_device.error();
  norm_args final_norm{pass.device_.at<float>(pass.hidden_at_),
                       pass.device_.at<std::uint32_t>(pass.sampled_at_),
                       out.rows,
                       weights_->config.hidden,
                       device_weights_->final_norm,
                       weights_->config.norm_epsilon,
                       last->at<float>(0)};
  auto head = device_weights_->head.product(last->at<float>(0), hidden_, out.rows, on_device->at<float>(0),
                                            out.vocabulary, false);
  call_sequence calls;
  calls.then("final norm", [&] { return launch_rms_norm(stream_->get(), final_norm); })
      .then("head", [&] { return launch_gemm(stream_->get(), head); })
      .then("a download of logits", [&] {
        return cudaMemcpyAsync(out.memory.get(), on_device->data(), bytes, cudaMemcpyDeviceToHost,
                               stream_->get());
      });
  if (!calls.outcome()) return calls.outcome().error();
  return out;
}

} // namespace dualpath::kernels::cuda

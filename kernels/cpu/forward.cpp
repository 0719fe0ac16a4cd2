#include "kernels/cpu/forward.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

namespace dualpath::kernels {
namespace {

/// Rows taken through a layer together: enough to use every weight many times, few enough for the caches.
constexpr std::uint32_t rows_per_block = 384;
/// Below so many multiply-adds a loop is not worth waking a thread for.
constexpr std::uint64_t worth_sharing = 60'000;

core::error invalid(std::string text) { return {core::errc::invalid_argument, std::move(text)}; }

std::uint16_t to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

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
  if (entry.first_position < entry.tokens->known_from())
    return invalid(what + " computes token " + std::to_string(entry.first_position)
                   + " of a sequence that is known from token " + std::to_string(entry.tokens->known_from()));
  for (auto token : entry.tokens->tokens(entry.first_position, entry.token_count))
    if (token >= config.vocabulary)
      return invalid(what + " holds token id " + std::to_string(token) + " but the vocabulary ends at "
                     + std::to_string(config.vocabulary));
  return {};
}

} // namespace

cpu_forward::cpu_forward(std::shared_ptr<const model_weights> weights, kv_dtype type,
                         std::uint32_t block_tokens, const kernel_table& kernels, thread_pool& pool)
    : weights_{std::move(weights)},
      type_{type},
      block_tokens_{block_tokens},
      kernels_{kernels},
      pool_{pool},
      rope_{weights_->config.head_dim, weights_->config.rope_theta},
      attention_{{weights_->config.query_heads, weights_->config.kv_heads, weights_->config.head_dim, type},
                 kernels,
                 pool},
      hidden_stride_{padded_width(weights_->config.hidden)},
      qkv_stride_{padded_width(weights_->config.query_width() + 2 * weights_->config.kv_width())},
      heads_stride_{padded_width(weights_->config.query_width())},
      gate_up_stride_{padded_width(2 * ((weights_->config.intermediate + 31) / 32 * 32))},
      mlp_stride_{padded_width(weights_->config.intermediate)} {}

std::unique_ptr<cpu_pass> cpu_forward::begin(std::vector<batch_entry> entries) const {
  auto pass = std::make_unique<cpu_pass>();
  for (std::uint32_t i = 0; i < entries.size() && !pass->failure_; ++i) {
    const auto& entry = entries[i];
    pass->failure_ = check_entry(entry, i, weights_->config);
    if (pass->failure_) break;
    auto position = entry.first_position;
    for (auto token : entry.tokens->tokens(entry.first_position, entry.token_count))
      pass->rows_.push_back({i, position++, token});
  }
  if (entries.empty()) pass->failure_ = invalid("a batch without entries");
  pass->entries_ = std::move(entries);
  return pass;
}

std::optional<core::error> cpu_forward::check_views(const cpu_pass& pass, std::uint32_t first_layer,
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
    auto needed = (entry.first_position + entry.token_count + block_tokens_ - 1) / block_tokens_;
    if (views[i].blocks.size() < needed)
      return invalid("the KV view of batch entry " + std::to_string(i) + " has "
                     + std::to_string(views[i].blocks.size()) + " blocks but needs "
                     + std::to_string(needed));
    if (std::ranges::find(views[i].blocks, nullptr) != views[i].blocks.end())
      return invalid("the KV view of batch entry " + std::to_string(i) + " has a null block");
    if (layer_count > 1 && views[i].layer_stride_bytes == 0)
      return invalid("the KV view of batch entry " + std::to_string(i) + " holds one layer but "
                     + std::to_string(layer_count) + " are to be computed");
  }
  return {};
}

void cpu_forward::embed(cpu_pass& pass) {
  auto rows = static_cast<std::uint32_t>(pass.rows_.size());
  auto head_dim = weights_->config.head_dim;
  pass.hidden_ = float_buffer{rows * hidden_stride_};
  pass.angles_ = float_buffer{std::size_t{rows} * head_dim};
  for_rows(rows, hidden_stride_ + std::uint64_t{head_dim} * 20, [&](std::uint32_t r) {
    weights_->embedding.row(pass.rows_[r].token, pass.hidden_.span().subspan(r * hidden_stride_));
    rope_.angles(pass.rows_[r].position, pass.angles_.span().subspan(std::size_t{r} * head_dim, head_dim));
  });
}

void cpu_forward::reserve(std::uint32_t rows) {
  if (rows <= reserved_rows_) return;
  reserved_rows_ = rows;
  normalised_ = float_buffer{rows * hidden_stride_};
  delta_ = float_buffer{rows * hidden_stride_};
  qkv_ = float_buffer{rows * qkv_stride_};
  heads_ = float_buffer{rows * heads_stride_};
  gate_up_ = float_buffer{rows * gate_up_stride_};
  mlp_ = float_buffer{rows * mlp_stride_};
}

core::result<void> cpu_forward::run_layers(cpu_pass& pass, std::uint32_t first_layer,
                                           std::uint32_t layer_count, std::span<const kv_view> views) {
  if (auto failure = check_views(pass, first_layer, layer_count, views)) return *failure;
  thread_pool::busy_scope busy{pool_};
  if (first_layer == 0) embed(pass);
  auto rows = static_cast<std::uint32_t>(pass.rows_.size());
  reserve(std::min(rows, rows_per_block));
  for (auto layer = first_layer; layer < first_layer + layer_count; ++layer)
    for (std::uint32_t first = 0; first < rows; first += rows_per_block)
      run_layer(pass, layer, {first, std::min(rows_per_block, rows - first)}, views);
  pass.next_layer_ += layer_count;
  return {};
}

void cpu_forward::run_layer(cpu_pass& pass, std::uint32_t layer, row_block block,
                            std::span<const kv_view> views) {
  const auto& weights = weights_->layers[layer];
  auto* hidden = pass.hidden_.data() + block.first * hidden_stride_;
  auto add_delta = [&] {
    for_rows(block.count, hidden_stride_, [&](std::uint32_t r) {
      kernels_.add(hidden + r * hidden_stride_, delta_.data() + r * hidden_stride_,
                   (weights_->config.hidden + 15) / 16 * 16);
    });
  };
  normalise(hidden, weights.attention_norm, normalised_.data(), block.count);
  project(weights.qkv, normalised_.data(), hidden_stride_, block.count, qkv_.data(), qkv_stride_);
  rotate_and_store(pass, layer, block, views);
  attend(pass, layer, block, views);
  project(weights.output, heads_.data(), heads_stride_, block.count, delta_.data(), hidden_stride_);
  add_delta();
  normalise(hidden, weights.mlp_norm, normalised_.data(), block.count);
  project(weights.gate_up, normalised_.data(), hidden_stride_, block.count, gate_up_.data(), gate_up_stride_);
  auto panels = weights.gate_up.panels() / 2;
  for_rows(block.count, std::uint64_t{panels} * 128, [&](std::uint32_t r) {
    kernels_.silu_multiply(gate_up_.data() + r * gate_up_stride_, panels, mlp_.data() + r * mlp_stride_);
  });
  project(weights.down, mlp_.data(), mlp_stride_, block.count, delta_.data(), hidden_stride_);
  add_delta();
}

kv_rows cpu_forward::rows_of(const kv_view& view, std::uint32_t layer) const {
  return {&view, layer * view.layer_stride_bytes, block_tokens_, weights_->token_bytes(type_)};
}

void cpu_forward::store_row(std::byte* to, std::span<const float> values) const {
  if (type_ == kv_dtype::f32) {
    std::memcpy(to, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto bits = to_bf16(values[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

void cpu_forward::rotate_and_store(const cpu_pass& pass, std::uint32_t layer, row_block block,
                                   std::span<const kv_view> views) {
  const auto& config = weights_->config;
  auto rotated_heads = config.query_heads + config.kv_heads;
  for_rows(block.count, qkv_stride_, [&](std::uint32_t r) {
    const auto& row = pass.rows_[block.first + r];
    auto* heads = qkv_.data() + r * qkv_stride_;
    const auto* angles = pass.angles_.data() + std::size_t{block.first + r} * config.head_dim;
    for (std::uint32_t h = 0; h < rotated_heads; ++h)
      rope::rotate(heads + std::size_t{h} * config.head_dim, {angles, config.head_dim});
    store_row(rows_of(views[row.entry], layer).row(row.position),
              {heads + config.query_width(), 2 * std::size_t{config.kv_width()}});
  });
}

void cpu_forward::attend(const cpu_pass& pass, std::uint32_t layer, row_block block,
                         std::span<const kv_view> views) {
  std::vector<attention_job> jobs;
  for (std::uint32_t r = 0; r < block.count; ++r) {
    const auto& row = pass.rows_[block.first + r];
    if (r > 0 && pass.rows_[block.first + r - 1].entry == row.entry)
      ++jobs.back().tokens;
    else
      jobs.push_back({rows_of(views[row.entry], layer), r, row.position, 1});
  }
  attention_.run(jobs, {qkv_.data(), qkv_stride_, heads_.data(), heads_stride_});
}

void cpu_forward::normalise(const float* from, const float_buffer& weight, float* to, std::uint32_t rows) {
  const auto& config = weights_->config;
  for_rows(rows, 2 * hidden_stride_, [&](std::uint32_t r) {
    kernels_.rms_norm(from + r * hidden_stride_, weight.data(), config.norm_epsilon, config.hidden,
                      (config.hidden + 15) / 16 * 16, to + r * hidden_stride_);
  });
}

void cpu_forward::project(const packed_matrix& matrix, const float* a, std::size_t a_stride,
                          std::uint32_t rows, float* c, std::size_t c_stride) {
  auto panels = matrix.panels();
  auto work = std::uint64_t{panels} * packed_matrix::panel_columns * matrix.inputs * rows;
  auto tasks = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({panels, work / worth_sharing + 1, std::uint64_t{pool_.threads()} * 16}));
  pool_.parallel_for(tasks, [&](std::uint32_t task) {
    auto first = static_cast<std::uint32_t>(std::uint64_t{panels} * task / tasks);
    auto last = static_cast<std::uint32_t>(std::uint64_t{panels} * (task + 1) / tasks);
    gemm_args args{a,
                   a_stride,
                   rows,
                   matrix.inputs,
                   matrix.panel(first),
                   last - first,
                   c + std::size_t{first} * packed_matrix::panel_columns,
                   c_stride};
    if (matrix.bias.size()) {
      args.from = gemm_args::start::bias;
      args.bias = matrix.bias.data() + std::size_t{first} * packed_matrix::panel_columns;
    }
    kernels_.gemm(args);
  });
}

template <class Body>
void cpu_forward::for_rows(std::uint32_t rows, std::uint64_t cost_per_row, const Body& body) {
  auto work = cost_per_row * rows * 4;
  auto tasks = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({rows, work / worth_sharing + 1, std::uint64_t{pool_.threads()} * 4}));
  pool_.parallel_for(tasks, [&](std::uint32_t task) {
    auto last = static_cast<std::uint32_t>(std::uint64_t{rows} * (task + 1) / tasks);
    for (auto r = static_cast<std::uint32_t>(std::uint64_t{rows} * task / tasks); r < last; ++r) body(r);
  });
}

core::result<logit_rows> cpu_forward::logits(const cpu_pass& pass, logits_of which) {
  if (pass.failure_) return *pass.failure_;
  if (pass.next_layer_ != weights_->config.layers)
    return invalid("logits asked for after " + std::to_string(pass.next_layer_) + " of "
                   + std::to_string(weights_->config.layers) + " layers");
  logit_rows out;
  for (std::uint32_t r = 0; r < pass.rows_.size(); ++r) {
    const auto& entry = pass.entries_[pass.rows_[r].entry];
    auto last = pass.rows_[r].position + 1 == entry.first_position + entry.token_count;
    if (which == logits_of::every_row || (last && entry.wants_token)) out.rows.push_back(r);
  }
  auto rows = static_cast<std::uint32_t>(out.rows.size());
  out.vocabulary = weights_->config.vocabulary;
  out.stride = padded_width(out.vocabulary);
  out.values = float_buffer{rows * out.stride};
  thread_pool::busy_scope busy{pool_};
  float_buffer last_hidden{rows * hidden_stride_};
  for (std::uint32_t i = 0; i < rows; ++i)
    normalise(pass.hidden_.data() + out.rows[i] * hidden_stride_, weights_->final_norm,
              last_hidden.data() + i * hidden_stride_, 1);
  project(weights_->head, last_hidden.data(), hidden_stride_, rows, out.values.data(), out.stride);
  for (std::uint32_t i = 0; i < rows; ++i)
    if (!std::ranges::all_of(out.row(i), [](float x) { return std::isfinite(x); }))
      return core::error{core::errc::corrupt,
                         "a logit after position " + std::to_string(pass.rows_[out.rows[i]].position)
                             + " is not a finite number; the weights or the KV-cache are damaged"};
  return out;
}

} // namespace dualpath::kernels

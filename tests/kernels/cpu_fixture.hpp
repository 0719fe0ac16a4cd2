// A model, a forward pass and KV memory for tests of the CPU device.
#pragma once

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/cpu/forward.hpp"
#include "kernels/model/model_weights.hpp"
#include "kernels/model/preset.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace dualpath::kernels::test {

inline std::shared_ptr<const model_weights> must_load(const std::string& dir) {
  auto model = load_model(dir);
  if (!model) FAIL(model.error().text);
  return *model;
}

inline std::string fixture_dir(const std::string& name) {
  return std::string{DUALPATH_SOURCE_DIR} + "/tests/kernels/fixtures/" + name;
}

/// A random model of an odd shape: nothing in it is a multiple of a vector or a panel.
inline std::shared_ptr<const model_weights> odd_model() {
  model_config config;
  config.architecture = "LlamaForCausalLM";
  config.layers = 2;
  config.hidden = 52;
  config.intermediate = 77;
  config.query_heads = 6;
  config.kv_heads = 2;
  config.head_dim = 22;
  config.vocabulary = 131;
  config.max_tokens = 4096;
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  auto model = build_weights("odd", config, *make_random_tensors(config, 5));
  if (!model) FAIL(model.error().text);
  return *model;
}

inline std::vector<core::token_id> random_tokens(std::uint32_t count, std::uint32_t vocabulary,
                                                 std::uint64_t seed) {
  std::vector<core::token_id> tokens;
  for (std::uint32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<core::token_id>(sequence::mix(seed * 1000003 + i) % vocabulary));
  return tokens;
}

/// Blocks of one sequence, all layers, filled with bytes that would show as NaN where they were used.
struct kv_memory {
  std::vector<std::vector<std::byte>> blocks;
  kv_view view;

  kv_memory(core::block_layout layout, std::uint64_t tokens) {
    for (std::uint64_t i = 0; i < layout.blocks_for(tokens); ++i)
      view.blocks.push_back(blocks.emplace_back(layout.full_block_bytes(), std::byte{0xff}).data());
    view.layer_stride_bytes = layout.layer_block_bytes();
  }
  kv_memory(const kv_memory&) = delete;
  friend bool operator==(const kv_memory& a, const kv_memory& b) { return a.blocks == b.blocks; }
};

struct forward_settings {
  kernels::kv_dtype type = kernels::kv_dtype::f32;
  std::uint32_t block_tokens = 16;
  std::uint32_t threads = 1;
  const kernel_table* kernels = &best_kernels();
};

/// One way to compute a sequence: a device and its settings.
class forward_run {
public:
  explicit forward_run(std::shared_ptr<const model_weights> weights, const forward_settings& how = {})
      : weights_{std::move(weights)},
        how_{how},
        pool_{how.threads},
        forward_{weights_, how.type, how.block_tokens, *how.kernels, pool_} {}

  core::block_layout layout() const {
    return {weights_->config.layers, how_.block_tokens, weights_->token_bytes(how_.type)};
  }
  cpu_forward& forward() { return forward_; }

  /// Logits of every row of [first, first + count).
  logit_rows compute(const sequence& tokens, kv_memory& kv, std::uint32_t first, std::uint32_t count) {
    auto pass = forward_.begin({batch_entry{&tokens, first, count, first, true, {}}});
    return finish(*pass, {kv.view});
  }
  logit_rows finish(cpu_pass& pass, const std::vector<kv_view>& views) {
    auto ran = forward_.run_layers(pass, 0, weights_->config.layers, views);
    if (!ran) FAIL(ran.error().text);
    auto logits = forward_.logits(pass, logits_of::every_row);
    if (!logits) FAIL(logits.error().text);
    return std::move(*logits);
  }

  /// All logits of a sequence, computed in chunks of `chunk` tokens.
  std::vector<std::vector<float>> in_chunks(const sequence& tokens, kv_memory& kv, std::uint32_t chunk) {
    std::vector<std::vector<float>> rows;
    for (std::uint32_t first = 0; first < tokens.size(); first += chunk) {
      auto logits = compute(tokens, kv, first, std::min(chunk, tokens.size() - first));
      for (std::size_t i = 0; i < logits.rows.size(); ++i)
        rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
    }
    return rows;
  }

private:
  std::shared_ptr<const model_weights> weights_;
  forward_settings how_;
  thread_pool pool_;
  cpu_forward forward_;
};

} // namespace dualpath::kernels::test

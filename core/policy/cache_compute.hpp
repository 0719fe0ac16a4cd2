// Whether dual paths are worth deploying for a model and a cluster (spec §8, §9), before anyone buys into it:
// the cache-compute ratio, bytes of KV-cache to load over operations to compute, from the shapes of the model
// alone. Pure.
#pragma once

#include "core/policy/bounds.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dualpath::core {

/// What the ratio depends on. Attention operations count multiply and add, scores and values, of all heads.
struct model_shape {
  std::string_view name;
  double active_parameters = 0;            ///< per token, as the makers of the model publish them
  std::uint32_t cached_layers = 0;         ///< layers whose KV grows with the context
  double kv_bytes_per_layer_token = 0;     ///< loaded for each of them
  double attention_flops_per_pair = 0;     ///< one layer, one (query, key) pair
  std::uint64_t attended_tokens_limit = 0; ///< most keys a query attends to (sparse attention); 0: all
  double indexer_flops_per_pair = 0;       ///< sparse attention: one layer, over all of the context
  std::uint32_t window_layers = 0;         ///< further layers that attend to a window and keep no long KV
  std::uint64_t window_tokens = 0;
};

/// Qwen2.5-32B, GPT-OSS-120B, Qwen3-235B-A22B, DeepSeek-V3.2, DeepSeek-V3.
std::span<const model_shape> published_models();
/// By name, as above; null where there is none.
const model_shape* find_model(std::string_view name);

/// One turn of an agent: `context_tokens` exist, `append_tokens` are new.
double hit_kv_bytes(const model_shape& model, double context_tokens);
double append_flops(const model_shape& model, double context_tokens, double append_tokens);
/// GB to load per PFLOP to compute, everything of the context being hit.
double cache_compute_ratio(const model_shape& model, double context_tokens, double append_tokens);

struct turn_shape {
  double context_tokens = 0;
  double append_tokens = 0;
  double hit_rate = 1; ///< share of the context found in the store; the rest is computed
};

/// Times are those the whole cluster needs per turn when it works on many, each resource by itself.
struct verdict {
  bool pays = false;
  double ratio_gb_per_pflop = 0; ///< with the hit rate given
  double compute_s = 0;          ///< on all prefill GPUs
  double basic_load_s = 0;       ///< through the storage NICs of prefill nodes
  double dual_load_s = 0;        ///< through all storage NICs, within the bounds of spec §5
  double speedup = 1;            ///< upper limit: max(basic load, compute) / max(dual load, compute)
  std::string sentence;          ///< the verdict and its figures
};

/// `gpu_flops` > 0: operations per second a GPU reaches in prefill. The cluster must pass check_shape. It
/// pays where the upper limit of the speedup is 1.05 or more.
verdict dual_path_pays(const model_shape& model, const turn_shape& turn, const cluster_shape& cluster,
                       double gpu_flops);

} // namespace dualpath::core

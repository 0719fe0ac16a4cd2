#include "core/policy/cache_compute.hpp"

#include "core/units.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace dualpath::core {

namespace {

/// Scores and values of grouped-query attention: a multiply and an add each, over the dimensions of every
/// query head.
constexpr double dense_pair(double heads, double head_dimension) { return 4 * heads * head_dimension; }

/// Multi-head latent attention in its absorbed form: scores over latent and rotary dimensions, values over
/// the latent.
constexpr double absorbed_pair(double heads, double latent, double rotary) {
  return 2 * heads * (latent + rotary) + 2 * heads * latent;
}

/// K and V of all KV heads.
constexpr double dense_kv(double kv_heads, double head_dimension, double element_bytes) {
  return 2 * kv_heads * head_dimension * element_bytes;
}

/// 512 latent dimensions in FP8 with 4 scales in FP32, 64 rotary ones in BF16.
constexpr double latent_kv = 512 + 4 * 4 + 64 * 2;

/// DeepSeek-V3 activates 37 B, of which the two embedding tables take 1.9 B.
constexpr double deepseek_active = 35e9;

constexpr std::array<model_shape, 5> models{{
    {"Qwen2.5-32B", 32.5e9, 64, dense_kv(8, 128, 2), dense_pair(40, 128), 0, 0, 0, 0},
    {"GPT-OSS-120B", 5.1e9, 18, dense_kv(8, 64, 1), dense_pair(64, 64), 0, 0, 18, 128},
    {"Qwen3-235B-A22B", 22e9, 94, dense_kv(4, 128, 1), dense_pair(64, 128), 0, 0, 0, 0},
    {"DeepSeek-V3.2", deepseek_active, 61, latent_kv, absorbed_pair(128, 512, 64), 2048, 2.0 * 64 * 128, 0,
     0},
    {"DeepSeek-V3", deepseek_active, 61, latent_kv, absorbed_pair(128, 512, 64), 0, 0, 0, 0},
}};

/// Pairs of `computed` queries after `cached` tokens, each with at most `limit` keys (0: all) where the
/// context is longer.
double pairs(double cached, double computed, double limit) {
  double mean_keys = cached + (computed + 1) / 2;
  return computed * (limit > 0 ? std::min(mean_keys, limit) : mean_keys);
}

template <class... Args>
std::string text_of(const char* format, Args... args) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

std::string reason(const verdict& v, const turn_shape& turn, const cluster_shape& cluster) {
  constexpr double usual_hit_rate = 0.95;
  auto times =
      text_of("a turn takes %s to load through prefill nodes, %s through all nodes and %s to compute "
              "(%.1f GB/PFLOP)",
              format_duration(from_seconds(v.basic_load_s)).c_str(),
              format_duration(from_seconds(v.dual_load_s)).c_str(),
              format_duration(from_seconds(v.compute_s)).c_str(), v.ratio_gb_per_pflop);
  std::string text = v.pays ? text_of("Dual paths pay, up to %.2f times the throughput: ", v.speedup) + times
                            : "Dual paths do not pay: " + times;
  if (!v.pays) {
    bool compute_bound = v.compute_s >= v.basic_load_s;
    text += compute_bound ? ", so computing is the bottleneck already"
                          : ", so the storage NICs of decode nodes add too little";
  }
  if (turn.hit_rate < usual_hit_rate)
    text += text_of("; a hit rate of %.0f%% is below the 95%% of agents", turn.hit_rate * 100);
  double ratio = static_cast<double>(cluster.prefill_nodes) / cluster.decode_nodes;
  if (!allowed_ratios(cluster).contains(ratio)) text += "; " + explain_bounds(cluster);
  if (text.back() != '.') text += '.';
  return text;
}

} // namespace

std::span<const model_shape> published_models() { return models; }

const model_shape* find_model(std::string_view name) {
  auto place =
      std::find_if(models.begin(), models.end(), [&](const model_shape& m) { return m.name == name; });
  return place == models.end() ? nullptr : &*place;
}

double hit_kv_bytes(const model_shape& model, double context_tokens) {
  return context_tokens * model.cached_layers * model.kv_bytes_per_layer_token;
}

double append_flops(const model_shape& model, double context_tokens, double append_tokens) {
  double linear = 2 * model.active_parameters * append_tokens;
  double attended = pairs(context_tokens, append_tokens, static_cast<double>(model.attended_tokens_limit));
  double windowed = pairs(context_tokens, append_tokens, static_cast<double>(model.window_tokens));
  double indexed = pairs(context_tokens, append_tokens, 0);
  return linear + model.cached_layers * model.attention_flops_per_pair * attended
         + model.window_layers * model.attention_flops_per_pair * windowed
         + model.cached_layers * model.indexer_flops_per_pair * indexed;
}

double cache_compute_ratio(const model_shape& model, double context_tokens, double append_tokens) {
  return hit_kv_bytes(model, context_tokens) / 1e9
         / (append_flops(model, context_tokens, append_tokens) / 1e15);
}

verdict dual_path_pays(const model_shape& model, const turn_shape& turn, const cluster_shape& cluster,
                       double gpu_flops) {
  constexpr double worthwhile_speedup = 1.05;
  double cached = turn.context_tokens * turn.hit_rate;
  double computed = turn.append_tokens + turn.context_tokens - cached;
  double bytes = hit_kv_bytes(model, cached);
  auto basic_cluster = best_read_plan(cluster, read_sides::prefill);
  verdict v;
  v.ratio_gb_per_pflop = cache_compute_ratio(model, cached, computed);
  v.compute_s = append_flops(model, cached, computed)
                / (gpu_flops * static_cast<double>(cluster.prefill_nodes) * cluster.gpus_per_node);
  v.basic_load_s = bytes / basic_cluster.total_bytes_per_s();
  v.dual_load_s = bytes / best_read_plan(cluster).total_bytes_per_s();
  v.speedup = std::max(v.basic_load_s, v.compute_s) / std::max(v.dual_load_s, v.compute_s);
  v.pays = v.speedup >= worthwhile_speedup;
  v.sentence = reason(v, turn, cluster);
  return v;
}

} // namespace dualpath::core

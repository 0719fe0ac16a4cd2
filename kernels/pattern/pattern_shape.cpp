#include "kernels/pattern/pattern_shape.hpp"

#include "core/policy/cache_compute.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace dualpath::kernels {

namespace {

/// What the published figures of a model do not say, and moving its KV-cache needs.
struct preset {
  std::string_view name;
  std::string_view published_name;
  std::uint32_t vocabulary, max_tokens;
};

constexpr std::array<preset, 4> presets{{
    {"qwen2.5-32b", "Qwen2.5-32B", 152064, 131072},
    {"qwen3-235b-a22b", "Qwen3-235B-A22B", 151936, 262144},
    {"deepseek-v3", "DeepSeek-V3", 129280, 163840},
    {"deepseek-v3.2", "DeepSeek-V3.2", 129280, 163840},
}};

pattern_shape shape_of(const preset& known) {
  auto& model = *core::find_model(known.published_name);
  pattern_shape shape{std::string{known.name}, model.cached_layers,
                      static_cast<std::uint32_t>(model.kv_bytes_per_layer_token), known.vocabulary,
                      known.max_tokens};
  shape.flops_per_token = 2 * model.active_parameters;
  bool sparse = model.attended_tokens_limit > 0;
  shape.attention_flops_per_pair_per_layer =
      sparse ? model.indexer_flops_per_pair : model.attention_flops_per_pair;
  shape.top_attention_flops_per_pair_per_layer = sparse ? model.attention_flops_per_pair : 0;
  shape.top_attention_tokens = static_cast<std::uint32_t>(model.attended_tokens_limit);
  return shape;
}

std::string preset_names() {
  std::string names;
  for (auto& known : presets) names += (names.empty() ? "" : ", ") + std::string{known.name};
  return names;
}

std::optional<std::uint32_t> parse_count(std::string_view text, std::uint32_t limit) {
  std::uint32_t value = 0;
  auto end = text.data() + text.size();
  auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || stop != end || value == 0 || value > limit) return std::nullopt;
  return value;
}

/// Sum over i < computed of min(cached + i + 1, limit).
double pairs_within(double cached, double computed, double limit) {
  auto growing = std::clamp(limit - cached, 0.0, computed);
  return growing * cached + growing * (growing + 1) / 2 + (computed - growing) * limit;
}

} // namespace

core::result<pattern_shape> parse_pattern_shape(std::string_view text) {
  for (auto& known : presets)
    if (text == known.name) return shape_of(known);
  constexpr std::uint32_t layer_limit = 4096, byte_limit = 1u << 24;
  if (auto cut = text.find('x'); cut != std::string_view::npos) {
    auto layers = parse_count(text.substr(0, cut), layer_limit);
    auto token_bytes = parse_count(text.substr(cut + 1), byte_limit);
    if (layers && token_bytes) {
      auto whole = shape_of(presets.front());
      auto bytes_ratio = static_cast<double>(*token_bytes) / whole.token_bytes;
      pattern_shape shape{std::string{text}, *layers, *token_bytes, 65536, 1u << 20};
      shape.flops_per_token = whole.flops_per_token / whole.layers * *layers * bytes_ratio;
      shape.attention_flops_per_pair_per_layer = whole.attention_flops_per_pair_per_layer * bytes_ratio;
      return shape;
    }
  }
  return core::error{core::errc::invalid_argument,
                     "unknown model shape \"" + std::string{text} + "\": use " + preset_names()
                         + " or LAYERSxTOKEN_BYTES, such as 16x4096 (at most " + std::to_string(layer_limit)
                         + " layers of " + std::to_string(byte_limit) + " bytes)"};
}

double prefill_flops(const pattern_shape& shape, std::uint64_t cached_tokens, std::uint64_t computed_tokens) {
  auto cached = static_cast<double>(cached_tokens), computed = static_cast<double>(computed_tokens);
  auto all_pairs = computed * cached + computed * (computed + 1) / 2;
  auto top_pairs = pairs_within(cached, computed, shape.top_attention_tokens);
  return computed * shape.flops_per_token
         + shape.layers
               * (all_pairs * shape.attention_flops_per_pair_per_layer
                  + top_pairs * shape.top_attention_flops_per_pair_per_layer);
}

} // namespace dualpath::kernels

#include "kernels/model/model_weights.hpp"

#include "kernels/model/checkpoint.hpp"
#include "kernels/model/preset.hpp"

#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

namespace dualpath::kernels {
namespace {

struct hash_state_free {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

/// Fetches tensors by name, checks their shapes, hashes them, and keeps the first complaint.
class weight_reader {
public:
  explicit weight_reader(const tensor_source& source) : source_{source}, state_{XXH3_createState()} {
    XXH3_128bits_reset(state_.get());
  }

  std::optional<tensor_view> take(const std::string& name, std::vector<std::uint64_t> shape) {
    if (failure_) return {};
    auto view = source_.find(name);
    if (!view) return failure_ = view.error(), std::nullopt;
    if (view->shape != shape) {
      failure_ =
          core::error{core::errc::invalid_argument, source_.describe(name) + ": tensor " + name
                                                        + " has shape " + shape_text(view->shape)
                                                        + " but config.json asks for " + shape_text(shape)};
      return {};
    }
    hash(name, *view);
    return std::move(*view);
  }

  float_buffer vector(const std::string& name, std::uint32_t length) {
    auto view = take(name, {length});
    float_buffer out{padded_width(length)};
    if (view) widen(*view, 0, out.span().first(length));
    return out;
  }

  /// Packs rows of a [outputs, inputs] weight, row r to the column place(r); with its bias where it has one.
  template <class Place>
  void matrix(packed_matrix& to, const std::string& name, std::uint32_t outputs, bool with_bias,
              Place place) {
    auto weight = take(name + ".weight", {outputs, to.inputs});
    if (!weight) return;
    std::vector<float> row(to.inputs);
    for (std::uint32_t r = 0; r < outputs; ++r) {
      widen(*weight, std::uint64_t{r} * to.inputs, row);
      to.set_column(place(r), row);
    }
    if (!with_bias) return;
    auto bias = take(name + ".bias", {outputs});
    if (!bias) return;
    for (std::uint32_t r = 0; r < outputs; ++r) widen(*bias, r, to.bias.span().subspan(place(r), 1));
  }

  const std::optional<core::error>& failure() const { return failure_; }

  std::array<std::uint8_t, 16> digest() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    return core::digest128(std::as_bytes(std::span{canonical.digest}));
  }

private:
  void hash(const std::string& name, const tensor_view& view) {
    // Lengths first, so that no two lists of tensors run into the same bytes.
    auto facts = std::to_string(name.size()) + name + to_string(view.type) + shape_text(view.shape);
    XXH3_128bits_update(state_.get(), facts.data(), facts.size());
    XXH3_128bits_update(state_.get(), view.bytes.data(), view.bytes.size());
  }

  const tensor_source& source_;
  std::unique_ptr<XXH3_state_t, hash_state_free> state_;
  std::optional<core::error> failure_;
};

void read_attention(weight_reader& reader, const model_config& config, const std::string& prefix,
                    layer_weights& to) {
  auto q = config.query_width();
  auto kv = config.kv_width();
  to.qkv = packed_matrix{q + 2 * kv, config.hidden, config.qkv_bias};
  reader.matrix(to.qkv, prefix + "q_proj", q, config.qkv_bias, [](auto r) { return r; });
  reader.matrix(to.qkv, prefix + "k_proj", kv, config.qkv_bias, [q](auto r) { return q + r; });
  reader.matrix(to.qkv, prefix + "v_proj", kv, config.qkv_bias, [q, kv](auto r) { return q + kv + r; });
  to.output = packed_matrix{config.hidden, q, config.output_bias};
  reader.matrix(to.output, prefix + "o_proj", config.hidden, config.output_bias, [](auto r) { return r; });
}

void read_mlp(weight_reader& reader, const model_config& config, const std::string& prefix,
              layer_weights& to) {
  constexpr auto columns = packed_matrix::panel_columns;
  auto panels = (config.intermediate + columns - 1) / columns;
  to.gate_up = packed_matrix{2 * panels * columns, config.hidden, config.mlp_bias};
  auto interleave = [](std::uint32_t half) {
    return [half](std::uint32_t r) { return (r / columns * 2 + half) * columns + r % columns; };
  };
  reader.matrix(to.gate_up, prefix + "gate_proj", config.intermediate, config.mlp_bias, interleave(0));
  reader.matrix(to.gate_up, prefix + "up_proj", config.intermediate, config.mlp_bias, interleave(1));
  to.down = packed_matrix{config.hidden, config.intermediate, config.mlp_bias};
  reader.matrix(to.down, prefix + "down_proj", config.hidden, config.mlp_bias, [](auto r) { return r; });
}

void read_ends(weight_reader& reader, const model_config& config, model_weights& to) {
  const std::string embedding_name = "model.embed_tokens";
  to.head = packed_matrix{config.vocabulary, config.hidden, false};
  auto identity = [](auto r) { return r; };
  if (auto table = reader.take(embedding_name + ".weight", {config.vocabulary, config.hidden})) {
    to.embedding.type = table->type;
    to.embedding.columns = config.hidden;
    to.embedding.bytes.assign(table->bytes.begin(), table->bytes.end());
  }
  reader.matrix(to.head, config.tied_head ? embedding_name : "lm_head", config.vocabulary, false, identity);
  to.final_norm = reader.vector("model.norm.weight", config.hidden);
}

} // namespace

core::model_fingerprint model_weights::fingerprint(kv_dtype type) const {
  auto facts = std::string{"dualpath-model-1"} + to_config_json(config) + to_string(type);
  facts.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return {core::digest128(std::as_bytes(std::span{facts}))};
}

core::result<std::shared_ptr<const model_weights>> build_weights(std::string name, const model_config& config,
                                                                 const tensor_source& source) {
  auto weights = std::make_shared<model_weights>();
  weights->name = std::move(name);
  weights->config = config;
  weight_reader reader{source};
  read_ends(reader, config, *weights);
  for (std::uint32_t layer = 0; layer < config.layers && !reader.failure(); ++layer) {
    auto prefix = "model.layers." + std::to_string(layer) + ".";
    auto& to = weights->layers.emplace_back();
    to.attention_norm = reader.vector(prefix + "input_layernorm.weight", config.hidden);
    read_attention(reader, config, prefix + "self_attn.", to);
    to.mlp_norm = reader.vector(prefix + "post_attention_layernorm.weight", config.hidden);
    read_mlp(reader, config, prefix + "mlp.", to);
  }
  if (reader.failure()) return *reader.failure();
  weights->digest = reader.digest();
  return std::shared_ptr<const model_weights>{std::move(weights)};
}

core::result<std::shared_ptr<const model_weights>> load_model(const std::string& dir_or_preset) {
  if (auto preset = parse_preset(dir_or_preset)) return make_random_weights(*preset, 0);
  auto config = read_config(dir_or_preset);
  if (!config) return config.error();
  auto source = checkpoint::open(dir_or_preset);
  if (!source) return source.error();
  auto path = std::filesystem::path{dir_or_preset};
  auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return build_weights(name.string(), *config, **source);
}

} // namespace dualpath::kernels

#include "kernels/model/model_config.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>

namespace dualpath::kernels {
namespace {

using nlohmann::json;

/// Reads fields one by one and keeps the first complaint.
class config_reader {
public:
  config_reader(const json& object, const std::string& path) : object_{object}, path_{path} {}

  const json* find(const char* key) const {
    auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  std::uint32_t count(const char* key, std::uint32_t limit, std::optional<std::uint32_t> fallback = {}) {
    const auto* value = find(key);
    if (!value && fallback) return *fallback;
    if (!value) return fail(std::string{key} + " is missing"), 0;
    if (!value->is_number_integer() || value->get<std::int64_t>() < 1 || value->get<std::int64_t>() > limit)
      return fail(std::string{key} + " is " + value->dump() + ", not a whole number from 1 to "
                  + std::to_string(limit)),
             0;
    return value->get<std::uint32_t>();
  }

  double number(const char* key, double fallback) {
    const auto* value = find(key);
    if (!value) return fallback;
    if (!value->is_number() || !(value->get<double>() > 0))
      return fail(std::string{key} + " is " + value->dump() + ", not a positive number"), fallback;
    return value->get<double>();
  }

  bool flag(const char* key, bool fallback) {
    const auto* value = find(key);
    if (!value) return fallback;
    if (!value->is_boolean())
      return fail(std::string{key} + " is " + value->dump() + ", not true or false"), fallback;
    return value->get<bool>();
  }

  void fail(const std::string& what, core::errc code = core::errc::invalid_argument) {
    if (!failure_) failure_ = core::error{code, path_ + ": " + what};
  }
  void refuse(const std::string& what) { fail(what, core::errc::unsupported); }
  const std::optional<core::error>& failure() const { return failure_; }

private:
  const json& object_;
  const std::string& path_;
  std::optional<core::error> failure_;
};

void refuse_partial_rotary(config_reader& reader, const json& object) {
  auto it = object.find("partial_rotary_factor");
  if (it != object.end() && !it->is_null() && !(it->is_number() && it->get<double>() == 1.0))
    reader.refuse("partial_rotary_factor " + it->dump() + " is not supported; only whole heads are rotated");
}

/// `rope` is rope_scaling (transformers 4) or rope_parameters (transformers 5).
void check_rope(config_reader& reader, const json& rope, const char* key) {
  if (!rope.is_object()) return reader.fail(std::string{key} + " is not an object");
  for (const char* name : {"rope_type", "type"}) {
    auto it = rope.find(name);
    if (it != rope.end() && !(it->is_string() && it->get<std::string>() == "default"))
      return reader.refuse(std::string{key} + " of type " + it->dump()
                           + " is not supported; only \"default\" is");
  }
  auto factor = rope.find("factor");
  if (factor != rope.end() && !(factor->is_number() && factor->get<double>() == 1.0))
    return reader.refuse(std::string{key} + " with factor " + factor->dump()
                         + " is not supported; positions are not scaled");
  refuse_partial_rotary(reader, rope);
}

void read_rope(config_reader& reader, model_config& config, const json& object) {
  config.rope_theta = reader.number("rope_theta", 10000);
  if (const auto* scaling = reader.find("rope_scaling")) check_rope(reader, *scaling, "rope_scaling");
  if (const auto* parameters = reader.find("rope_parameters")) {
    check_rope(reader, *parameters, "rope_parameters");
    if (reader.failure()) return;
    auto theta = parameters->find("rope_theta");
    if (theta == parameters->end() && !reader.find("rope_theta"))
      return reader.fail("rope_parameters holds no rope_theta");
    if (theta != parameters->end()) {
      if (!theta->is_number() || !(theta->get<double>() > 0))
        return reader.fail("rope_theta is " + theta->dump() + ", not a positive number");
      config.rope_theta = theta->get<double>();
    }
  }
  if (config.rope_theta < 1)
    reader.fail("rope_theta is " + std::to_string(config.rope_theta) + ", less than 1");
  refuse_partial_rotary(reader, object);
}

void refuse_unsupported(config_reader& reader) {
  if (const auto* quantization = reader.find("quantization_config");
      quantization && quantization->is_object()) {
    auto method = quantization->find("quant_method");
    reader.refuse("quantization_config" + (method == quantization->end() ? "" : " " + method->dump())
                  + " is not supported; give a checkpoint in F32, BF16 or F16");
  }
  if (const auto* act = reader.find("hidden_act"); act && *act != "silu" && *act != "swish")
    reader.refuse("hidden_act " + act->dump() + " is not supported; only \"silu\" is");
  if (reader.flag("use_sliding_window", false))
    reader.refuse("use_sliding_window is not supported; attention is over the whole context");
  if (const auto* types = reader.find("layer_types"))
    for (const auto& type : *types)
      if (type != "full_attention")
        return reader.refuse("layer_types holds " + type.dump() + "; only \"full_attention\" is supported");
  if (reader.find("auto_map"))
    reader.refuse("auto_map is not supported; code that comes with a model is never run");
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "num_local_experts",
                          "num_experts", "use_qk_norm", "qk_layernorm", "logit_scale", "attention_multiplier",
                          "residual_multiplier", "embedding_multiplier", "logits_scaling"})
    if (const auto* value = reader.find(key); value && *value != false)
      return reader.refuse(std::string{key} + " is not supported");
}

void read_architecture(config_reader& reader, model_config& config) {
  const auto* list = reader.find("architectures");
  if (!list || !list->is_array() || list->size() != 1 || !list->front().is_string())
    return reader.fail("architectures does not name one architecture");
  config.architecture = list->front().get<std::string>();
  if (config.architecture == "Qwen2ForCausalLM") {
    config.qkv_bias = true;
  } else if (config.architecture == "LlamaForCausalLM") {
    config.qkv_bias = config.output_bias = reader.flag("attention_bias", false);
    config.mlp_bias = reader.flag("mlp_bias", false);
  } else {
    reader.refuse("architecture " + config.architecture
                  + " is not supported; LlamaForCausalLM and Qwen2ForCausalLM are");
  }
}

void read_sizes(config_reader& reader, model_config& config) {
  config.layers = reader.count("num_hidden_layers", 4096);
  config.hidden = reader.count("hidden_size", 1 << 17);
  config.intermediate = reader.count("intermediate_size", 1 << 20);
  config.query_heads = reader.count("num_attention_heads", 4096);
  config.kv_heads = reader.count("num_key_value_heads", 4096, config.query_heads);
  config.vocabulary = reader.count("vocab_size", 1 << 24);
  config.max_tokens = reader.count("max_position_embeddings", 1U << 31);
  // Longer sequences are beyond what the rotary angles are computed for.
  config.max_tokens = std::min(config.max_tokens, 1U << 20);
  config.norm_epsilon = static_cast<float>(reader.number("rms_norm_eps", 1e-6));
  config.tied_head = reader.flag("tie_word_embeddings", false);
  if (reader.failure()) return;
  auto implied = config.hidden / config.query_heads;
  if (!reader.find("head_dim") && config.hidden % config.query_heads != 0)
    return reader.fail("hidden_size " + std::to_string(config.hidden)
                       + " is not a multiple of num_attention_heads " + std::to_string(config.query_heads));
  config.head_dim = reader.count("head_dim", 4096, implied);
  if (config.head_dim % 2 != 0)
    return reader.fail("head_dim " + std::to_string(config.head_dim) + " is odd, so it cannot be rotated");
  if (config.query_heads % config.kv_heads != 0)
    return reader.fail("num_attention_heads " + std::to_string(config.query_heads)
                       + " is not a multiple of num_key_value_heads " + std::to_string(config.kv_heads));
}

} // namespace

std::uint64_t model_config::active_parameters() const {
  std::uint64_t h = hidden, q = query_width(), kv = kv_width(), f = intermediate;
  return layers * (h * (q + 2 * kv) + q * h + 3 * h * f) + h * vocabulary;
}

core::result<model_config> parse_config(std::string_view text, const std::string& path) {
  auto object = json::parse(text, nullptr, false);
  if (!object.is_object()) return core::error{core::errc::invalid_argument, path + ": not a JSON object"};
  model_config config;
  config_reader reader{object, path};
  read_architecture(reader, config);
  refuse_unsupported(reader);
  read_rope(reader, config, object);
  read_sizes(reader, config);
  if (reader.failure()) return *reader.failure();
  return config;
}

core::result<model_config> read_config(const std::string& model_dir) {
  auto path = model_dir + "/config.json";
  std::ifstream file{path, std::ios::binary};
  if (!file)
    return core::error{core::errc::invalid_argument,
                       path + ": cannot be read; give a Hugging Face model folder"};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  return parse_config(text, path);
}

std::string to_config_json(const model_config& config) {
  json object{
      {"architectures", json::array({config.architecture})},
      {"model_type", config.architecture == "Qwen2ForCausalLM" ? "qwen2" : "llama"},
      {"num_hidden_layers", config.layers},
      {"hidden_size", config.hidden},
      {"intermediate_size", config.intermediate},
      {"num_attention_heads", config.query_heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocabulary},
      {"max_position_embeddings", config.max_tokens},
      // The shortest decimals that read back as the same float, where the float itself would print 17 digits.
      {"rms_norm_eps", std::round(static_cast<double>(config.norm_epsilon) * 1e12) / 1e12},
      {"rope_theta", config.rope_theta},
      {"hidden_act", "silu"},
      {"tie_word_embeddings", config.tied_head},
      {"torch_dtype", "float32"},
  };
  if (config.architecture == "LlamaForCausalLM") {
    object["attention_bias"] = config.qkv_bias;
    object["mlp_bias"] = config.mlp_bias;
  }
  return object.dump(2) + "\n";
}

} // namespace dualpath::kernels

#include "kernels/model/preset.hpp"

#include "kernels/model/safetensors.hpp"
#include "kernels/sequence.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace dualpath::kernels {
namespace {

class random_tensors final : public tensor_source {
public:
  random_tensors(const model_config& config, std::uint64_t seed);

  core::result<tensor_view> find(std::string_view name) const override {
    for (const auto& tensor : tensors_)
      if (tensor.name == name) return tensor.view;
    return core::error{core::errc::invalid_argument,
                       "random model: tensor " + std::string{name} + " is missing"};
  }
  std::string describe(std::string_view) const override { return "random model"; }
  std::span<const named_tensor> all() const { return tensors_; }

private:
  /// Uniform values of the given mean and standard deviation.
  void add(std::string name, std::vector<std::uint64_t> shape, float mean, float deviation);
  void add_layer(const model_config& config, const std::string& prefix);

  std::uint64_t state_;
  std::vector<std::vector<float>> storage_;
  std::vector<named_tensor> tensors_;
};

void random_tensors::add(std::string name, std::vector<std::uint64_t> shape, float mean, float deviation) {
  std::uint64_t count = 1;
  for (auto size : shape) count *= size;
  auto& values = storage_.emplace_back(count);
  auto half_width = deviation * 1.7320508F;
  for (auto& value : values) {
    // 24 bits are exact in a float; this file is compiled without fused multiply-adds, which would change
    // bits.
    auto unit = static_cast<float>(sequence::mix(state_++) >> 40) * 0x1p-23F - 1.0F;
    value = mean + unit * half_width;
  }
  tensors_.push_back(
      {std::move(name), {tensor_type::f32, std::move(shape), std::as_bytes(std::span{values})}});
}

void random_tensors::add_layer(const model_config& config, const std::string& prefix) {
  auto q = config.query_width();
  auto kv = config.kv_width();
  auto h = config.hidden;
  auto f = config.intermediate;
  // Inputs of unit variance give outputs of unit variance, a little more for Q and K so that attention picks.
  auto unit = [](std::uint32_t inputs) { return 1.0F / std::sqrt(static_cast<float>(inputs)); };
  add(prefix + "input_layernorm.weight", {h}, 1, 0.1F);
  add(prefix + "self_attn.q_proj.weight", {q, h}, 0, 1.5F * unit(h));
  add(prefix + "self_attn.k_proj.weight", {kv, h}, 0, 1.5F * unit(h));
  add(prefix + "self_attn.v_proj.weight", {kv, h}, 0, unit(h));
  add(prefix + "self_attn.o_proj.weight", {h, q}, 0, 1.5F * unit(q));
  add(prefix + "post_attention_layernorm.weight", {h}, 1, 0.1F);
  add(prefix + "mlp.gate_proj.weight", {f, h}, 0, 1.5F * unit(h));
  add(prefix + "mlp.up_proj.weight", {f, h}, 0, 1.5F * unit(h));
  add(prefix + "mlp.down_proj.weight", {h, f}, 0, 1.5F * unit(f));
  for (const char* name : {"q_proj", "k_proj", "v_proj"})
    if (config.qkv_bias) add(prefix + "self_attn." + name + ".bias", {name[0] == 'q' ? q : kv}, 0, 0.3F);
  if (config.output_bias) add(prefix + "self_attn.o_proj.bias", {h}, 0, 0.3F);
  if (!config.mlp_bias) return;
  add(prefix + "mlp.gate_proj.bias", {f}, 0, 0.3F);
  add(prefix + "mlp.up_proj.bias", {f}, 0, 0.3F);
  add(prefix + "mlp.down_proj.bias", {h}, 0, 0.3F);
}

random_tensors::random_tensors(const model_config& config, std::uint64_t seed) : state_{sequence::mix(seed)} {
  add("model.embed_tokens.weight", {config.vocabulary, config.hidden}, 0, 0.5F);
  for (std::uint32_t layer = 0; layer < config.layers; ++layer)
    add_layer(config, "model.layers." + std::to_string(layer) + ".");
  add("model.norm.weight", {config.hidden}, 1, 0.1F);
  // Logits of standard deviation near 3: spread well, so that greedy ties are improbable, and not one-sided.
  if (!config.tied_head)
    add("lm_head.weight", {config.vocabulary, config.hidden}, 0,
        3.0F / std::sqrt(static_cast<float>(config.hidden)));
}

} // namespace

std::optional<model_preset> parse_preset(std::string_view name) {
  for (auto preset : {model_preset::tiny, model_preset::small})
    if (name == to_string(preset)) return preset;
  return {};
}

const char* to_string(model_preset preset) { return preset == model_preset::tiny ? "tiny" : "small"; }

model_config preset_config(model_preset preset) {
  model_config config;
  config.architecture = "LlamaForCausalLM";
  config.max_tokens = 131072;
  config.rope_theta = 500000;
  if (preset == model_preset::tiny) {
    config.layers = 4;
    config.hidden = 128;
    config.intermediate = 384;
    config.query_heads = 8;
    config.kv_heads = 2;
    config.head_dim = 16;
    config.vocabulary = 512;
  } else {
    config.layers = 12;
    config.hidden = 384;
    config.intermediate = 1024;
    config.query_heads = 6;
    config.kv_heads = 2;
    config.head_dim = 64;
    config.vocabulary = 8192;
  }
  return config;
}

std::shared_ptr<const tensor_source> make_random_tensors(const model_config& config, std::uint64_t seed) {
  return std::make_shared<random_tensors>(config, seed);
}

core::result<std::shared_ptr<const model_weights>> make_random_weights(model_preset preset,
                                                                       std::uint64_t seed) {
  auto config = preset_config(preset);
  return build_weights(to_string(preset), config, random_tensors{config, seed});
}

core::result<void> create_model(model_preset preset, std::uint64_t seed, const std::string& dir) {
  std::error_code failure;
  std::filesystem::create_directories(dir, failure);
  if (failure) return core::error{core::errc::io, dir + ": cannot be made: " + failure.message()};
  auto config = preset_config(preset);
  std::ofstream file{dir + "/config.json", std::ios::binary | std::ios::trunc};
  file << to_config_json(config);
  file.close();
  if (!file)
    return core::error{core::errc::io, dir + "/config.json: cannot be written: " + std::strerror(errno)};
  random_tensors tensors{config, seed};
  return write_safetensors(dir + "/model.safetensors", tensors.all());
}

} // namespace dualpath::kernels

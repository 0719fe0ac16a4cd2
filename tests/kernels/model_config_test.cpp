#include "kernels/model/model_config.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace dualpath;
using namespace dualpath::kernels;

namespace {

nlohmann::json base() {
  return nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-05, "rope_theta": 20000.0, "rope_scaling": null, "torch_dtype": "bfloat16",
    "hidden_act": "silu", "tie_word_embeddings": true})");
}

core::result<model_config> parse(const nlohmann::json& object) {
  return parse_config(object.dump(), "config.json");
}

model_config must_parse(const nlohmann::json& object) {
  auto config = parse(object);
  if (!config) FAIL(config.error().text);
  return *config;
}

} // namespace

TEST_CASE("a config in the style of transformers 4 is read") {
  auto config = must_parse(base());
  CHECK(config.architecture == "LlamaForCausalLM");
  CHECK(config.layers == 2);
  CHECK(config.hidden == 64);
  CHECK(config.intermediate == 96);
  CHECK(config.query_heads == 4);
  CHECK(config.kv_heads == 2);
  CHECK(config.head_dim == 16);
  CHECK(config.vocabulary == 100);
  CHECK(config.max_tokens == 512);
  CHECK(config.norm_epsilon == 1e-5F);
  CHECK(config.rope_theta == 20000.0);
  CHECK(config.tied_head);
  CHECK_FALSE(config.qkv_bias);
  CHECK_FALSE(config.mlp_bias);
}

TEST_CASE("a config in the style of transformers 5 is read") {
  auto object = base();
  object.erase("rope_theta");
  object.erase("rope_scaling");
  object.erase("torch_dtype");
  object["dtype"] = "float32";
  object["rope_parameters"] = {{"rope_theta", 70000.0}, {"rope_type", "default"}};
  CHECK(must_parse(object).rope_theta == 70000.0);
}

TEST_CASE("fields that may be absent have the values transformers gives them") {
  auto object = base();
  for (const char* key :
       {"num_key_value_heads", "rms_norm_eps", "rope_theta", "hidden_act", "tie_word_embeddings"})
    object.erase(key);
  object["head_dim"] = nullptr;
  auto config = must_parse(object);
  CHECK(config.kv_heads == 4);
  CHECK(config.head_dim == 16);
  CHECK(config.norm_epsilon == 1e-6F);
  CHECK(config.rope_theta == 10000.0);
  CHECK_FALSE(config.tied_head);
}

TEST_CASE("biases follow the architecture and its flags") {
  auto object = base();
  object["attention_bias"] = true;
  object["mlp_bias"] = true;
  auto llama = must_parse(object);
  CHECK((llama.qkv_bias && llama.output_bias && llama.mlp_bias));
  object["architectures"] = {"Qwen2ForCausalLM"};
  auto qwen = must_parse(object);
  CHECK((qwen.qkv_bias && !qwen.output_bias && !qwen.mlp_bias));
}

TEST_CASE("what would change the computation and is not implemented is refused by name") {
  struct refusal {
    const char* patch;
    const char* named;
  };
  auto refused = GENERATE(values<refusal>({
      {R"({"architectures": ["MistralForCausalLM"]})", "architecture MistralForCausalLM"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}})", "rope_scaling of type \"llama3\""},
      {R"({"rope_scaling": {"type": "linear", "factor": 2.0}})", "rope_scaling of type \"linear\""},
      {R"({"rope_scaling": {"factor": 2.0}})", "factor 2.0"},
      {R"({"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}})",
       "rope_parameters of type \"yarn\""},
      {R"({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}})",
       "partial_rotary_factor 0.5"},
      {R"({"partial_rotary_factor": 0.25})", "partial_rotary_factor 0.25"},
      {R"({"use_sliding_window": true, "sliding_window": 64})", "use_sliding_window"},
      {R"({"layer_types": ["full_attention", "sliding_attention"]})", "\"sliding_attention\""},
      {R"({"hidden_act": "gelu"})", "hidden_act \"gelu\""},
      {R"({"quantization_config": {"quant_method": "gptq"}})", "quantization_config \"gptq\""},
      {R"({"auto_map": {"AutoModel": "m.M"}})", "auto_map"},
      {R"({"num_experts": 8})", "num_experts"},
      {R"({"attn_logit_softcapping": 50.0})", "attn_logit_softcapping"},
  }));
  auto object = base();
  object.merge_patch(nlohmann::json::parse(refused.patch));
  auto config = parse(object);
  REQUIRE_FALSE(config);
  CHECK(config.error().code == core::errc::unsupported);
  CHECK_THAT(config.error().text, Catch::StartsWith("config.json: ") && Catch::Contains(refused.named));
}

TEST_CASE("a field that is missing or makes no sense is refused by name") {
  struct refusal {
    const char* patch;
    const char* named;
  };
  auto refused = GENERATE(values<refusal>({
      {R"({"architectures": null})", "architectures"},
      {R"({"architectures": ["LlamaForCausalLM", "X"]})", "architectures"},
      {R"({"hidden_size": null})", "hidden_size is missing"},
      {R"({"hidden_size": 0})", "hidden_size is 0"},
      {R"({"hidden_size": -64})", "hidden_size is -64"},
      {R"({"hidden_size": 64.5})", "hidden_size is 64.5"},
      {R"({"hidden_size": "64"})", "hidden_size is \"64\""},
      {R"({"hidden_size": 18446744073709551615})", "hidden_size is 18446744073709551615"},
      {R"({"num_hidden_layers": 1000000000})", "num_hidden_layers"},
      {R"({"num_attention_heads": 5})", "hidden_size 64 is not a multiple of num_attention_heads 5"},
      {R"({"num_key_value_heads": 3})", "num_attention_heads 4 is not a multiple of num_key_value_heads 3"},
      {R"({"head_dim": 7})", "head_dim 7 is odd"},
      {R"({"rms_norm_eps": 0})", "rms_norm_eps"},
      {R"({"rope_theta": "big"})", "rope_theta"},
      {R"({"rope_theta": 0.5})", "rope_theta"},
      {R"({"rope_parameters": 5})", "rope_parameters"},
      {R"({"rope_theta": null, "rope_parameters": {"rope_type": "default"}})",
       "rope_parameters holds no rope_theta"},
      {R"({"tie_word_embeddings": "yes"})", "tie_word_embeddings"},
  }));
  auto object = base();
  object.merge_patch(nlohmann::json::parse(refused.patch));
  auto config = parse(object);
  REQUIRE_FALSE(config);
  CHECK(config.error().code == core::errc::invalid_argument);
  CHECK_THAT(config.error().text, Catch::Contains(refused.named));
}

TEST_CASE("a config that is not a JSON object is refused") {
  for (const char* text : {"", "[]", "{", "null", "\"x\"", "{\"a\":\"\xff\"}"})
    CHECK_FALSE(parse_config(text, "c"));
  CHECK_FALSE(read_config("/nonexistent"));
}

TEST_CASE("a written config reads back the same") {
  auto config = must_parse(base());
  config.mlp_bias = true;
  config.head_dim = 24;
  auto again = parse_config(to_config_json(config), "c");
  REQUIRE(again);
  CHECK(to_config_json(*again) == to_config_json(config));
  CHECK(again->head_dim == 24);
  CHECK(again->norm_epsilon == config.norm_epsilon);
}

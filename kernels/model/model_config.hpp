// The architecture of a decoder-only transformer as config.json of a Hugging Face folder states it: RMSNorm,
// rotary positions (rotate_half), grouped-query attention, SwiGLU. Both the key names of transformers 4
// (rope_theta, torch_dtype) and of transformers 5 (rope_parameters, dtype) are read. Whatever changes the
// computation and is not implemented is refused by name: a wrong answer would look like a working model.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace dualpath::kernels {

struct model_config {
  std::string architecture; ///< LlamaForCausalLM or Qwen2ForCausalLM
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t intermediate = 0;
  std::uint32_t query_heads = 0;
  std::uint32_t kv_heads = 0; ///< divides query_heads
  std::uint32_t head_dim = 0; ///< even
  std::uint32_t vocabulary = 0;
  std::uint32_t max_tokens = 0;
  float norm_epsilon = 1e-6F;
  double rope_theta = 10000;
  bool qkv_bias = false;
  bool output_bias = false; ///< bias of o_proj
  bool mlp_bias = false;
  bool tied_head = false; ///< the head is the embedding table

  std::uint32_t query_width() const { return query_heads * head_dim; }
  /// Elements of K (or of V) of one token in one layer.
  std::uint32_t kv_width() const { return kv_heads * head_dim; }
  /// Weights used per token; the embedding look-up is none, the head is.
  std::uint64_t active_parameters() const;
};

/// Parses the text of a config.json; `path` is only named in errors.
core::result<model_config> parse_config(std::string_view text, const std::string& path);
/// Reads DIR/config.json.
core::result<model_config> read_config(const std::string& model_dir);
/// A config.json that parse_config and transformers (4 and 5) read back.
std::string to_config_json(const model_config& config);

} // namespace dualpath::kernels

// A model ready to compute: its configuration and its weights packed for the CPU kernels. Built once and
// shared, read-only, by every device of the process.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/result.hpp"
#include "kernels/model/model_config.hpp"
#include "kernels/model/packed_matrix.hpp"
#include "kernels/model/tensor_source.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dualpath::kernels {

enum class kv_dtype : std::uint8_t { f32, bf16 };

constexpr std::uint32_t size_bytes(kv_dtype type) { return type == kv_dtype::f32 ? 4 : 2; }
constexpr const char* to_string(kv_dtype type) { return type == kv_dtype::f32 ? "f32" : "bf16"; }

struct layer_weights {
  float_buffer attention_norm; ///< [padded_width(hidden)], zero past the end
  packed_matrix qkv;           ///< hidden → query heads, then K of all KV heads, then V
  packed_matrix output;        ///< query heads → hidden
  float_buffer mlp_norm;
  packed_matrix gate_up; ///< hidden → 32 of gate, the same 32 of up, and so on; ends on whole panels
  packed_matrix down;    ///< intermediate → hidden
};

/// Rows of the embedding table in the type of the checkpoint.
struct embedding_table {
  tensor_type type = tensor_type::f32;
  std::uint32_t columns = 0;
  std::vector<std::byte> bytes;

  void row(core::token_id token, std::span<float> out) const {
    widen({type, {}, bytes}, std::uint64_t{token} * columns, out.first(columns));
  }
};

struct model_weights {
  std::string name;
  model_config config;
  embedding_table embedding;
  std::vector<layer_weights> layers;
  float_buffer final_norm;
  packed_matrix head; ///< hidden → vocabulary
  /// Of names, types, shapes and bytes of every tensor used; the same for one file or shards, on every
  /// machine.
  std::array<std::uint8_t, 16> digest{};

  /// Names the model as far as KV bytes and tokens depend on it.
  core::model_fingerprint fingerprint(kv_dtype type) const;
  /// KV bytes of one token in one layer.
  std::uint32_t token_bytes(kv_dtype type) const { return 2 * config.kv_width() * size_bytes(type); }
};

/// Checks and packs every tensor that `config` needs. A missing tensor or a wrong shape is named in the
/// error.
core::result<std::shared_ptr<const model_weights>> build_weights(std::string name, const model_config& config,
                                                                 const tensor_source& source);
/// A Hugging Face folder, or the name of a preset ("tiny", "small"), whose weights are then made in memory
/// (seed 0).
core::result<std::shared_ptr<const model_weights>> load_model(const std::string& dir_or_preset);

} // namespace dualpath::kernels

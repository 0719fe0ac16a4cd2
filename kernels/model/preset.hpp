// Small models with random weights from a seed, the same bytes on every machine: for demonstrations, tests
// and benchmarks where no checkpoint is at hand. They compute like any model; their text means nothing.
#pragma once

#include "core/result.hpp"
#include "kernels/model/model_weights.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dualpath::kernels {

enum class model_preset : std::uint8_t {
  tiny,  ///< 4 layers of 128, about 0.9 million parameters
  small, ///< 12 layers of 384, about 25 million parameters
};

std::optional<model_preset> parse_preset(std::string_view name);
const char* to_string(model_preset preset);
model_config preset_config(model_preset preset);

/// The tensors of a random model in memory. Works for any configuration, so tests can use odd shapes.
std::shared_ptr<const tensor_source> make_random_tensors(const model_config& config, std::uint64_t seed);
/// Without touching the disk; equals the model that create_model writes, fingerprint included.
core::result<std::shared_ptr<const model_weights>> make_random_weights(model_preset preset,
                                                                       std::uint64_t seed);
/// Writes DIR/config.json and DIR/model.safetensors; makes DIR where needed, replaces what is there.
core::result<void> create_model(model_preset preset, std::uint64_t seed, const std::string& dir);

} // namespace dualpath::kernels

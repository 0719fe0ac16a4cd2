#include "kernels/cuda/device_weights.hpp"

#include "kernels/cuda/cuda_error.hpp"

#include <optional>
#include <utility>

namespace dualpath::kernels::cuda {
namespace {

/// Keeps the first error of several steps.
class first_error {
public:
  template <class T>
  void keep(core::result<T> outcome, T& to) {
    if (outcome)
      to = std::move(*outcome);
    else if (!error)
      error = outcome.error();
  }
  std::optional<core::error> error;
};

} // namespace

core::result<const float*> device_weights::place(const float_buffer& values, int device) {
  if (values.size() == 0) return static_cast<const float*>(nullptr);
  auto bytes = values.size() * sizeof(float);
  auto memory = allocate_device_memory(device, bytes);
  if (!memory) return memory.error();
  auto* to = (*memory)->bytes().data();
  if (auto copied = check(cudaMemcpy(to, values.data(), bytes, cudaMemcpyHostToDevice), "loading weights");
      !copied)
    return copied.error();
  memory_.push_back(std::move(*memory));
  return reinterpret_cast<const float*>(to);
}

core::result<device_matrix> device_weights::place(const packed_matrix& matrix, int device) {
  device_matrix placed;
  placed.outputs = matrix.outputs;
  placed.inputs = matrix.inputs;
  first_error steps;
  steps.keep(place(matrix.data, device), placed.panels);
  if (!steps.error) steps.keep(place(matrix.bias, device), placed.bias);
  if (steps.error) return *steps.error;
  return placed;
}

core::result<device_layer> device_weights::place(const layer_weights& layer, int device) {
  device_layer placed;
  first_error steps;
  steps.keep(place(layer.attention_norm, device), placed.attention_norm);
  steps.keep(place(layer.mlp_norm, device), placed.mlp_norm);
  steps.keep(place(layer.qkv, device), placed.qkv);
  steps.keep(place(layer.output, device), placed.output);
  steps.keep(place(layer.gate_up, device), placed.gate_up);
  steps.keep(place(layer.down, device), placed.down);
  if (steps.error) return *steps.error;
  return placed;
}

core::result<std::unique_ptr<device_weights>> device_weights::load(const model_weights& weights, int device) {
  auto loaded = std::make_unique<device_weights>();
  first_error steps;
  steps.keep(loaded->place(weights.final_norm, device), loaded->final_norm);
  steps.keep(loaded->place(weights.head, device), loaded->head);
  for (auto& layer : weights.layers) {
    if (steps.error) return *steps.error;
    steps.keep(loaded->place(layer, device), loaded->layers.emplace_back());
  }
  if (steps.error) return *steps.error;
  return loaded;
}

} // namespace dualpath::kernels::cuda

// The weights of a model in the memory of a CUDA device, laid out as the host has them.
#pragma once

#include "core/result.hpp"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/model/model_weights.hpp"

#include <memory>
#include <vector>

namespace dualpath::kernels::cuda {

struct device_matrix {
  const float* panels = nullptr;
  const float* bias = nullptr;
  std::uint32_t outputs = 0, inputs = 0;

  gemm_args product(const float* a, std::size_t a_stride, std::uint32_t rows, float* c, std::size_t c_stride,
                    bool add) const {
    return {a, a_stride, rows, panels, bias, outputs, inputs, c, c_stride, add};
  }
};

struct device_layer {
  const float* attention_norm = nullptr;
  const float* mlp_norm = nullptr;
  device_matrix qkv, output, gate_up, down;
};

/// Embeddings stay on the host, which looks them up.
class device_weights {
public:
  static core::result<std::unique_ptr<device_weights>> load(const model_weights& weights, int device);

  std::vector<device_layer> layers;
  const float* final_norm = nullptr;
  device_matrix head;

private:
  core::result<const float*> place(const float_buffer& values, int device);
  core::result<device_matrix> place(const packed_matrix& matrix, int device);
  core::result<device_layer> place(const layer_weights& layer, int device);

  std::vector<std::unique_ptr<device_memory>> memory_;
};

} // namespace dualpath::kernels::cuda

// The CUDA compute device: the forward pass of Qwen2 and Llama models on an NVIDIA GPU, in float32, over
// Layer Blocks in GPU memory. It queues own kernels on one stream and copies on another; nobody spins.
// Kernels keep the order of every sum whatever the batch, as the numerical contract asks, and it is the order
// of the CPU device.
//
// KV memory must come from allocate(), or be host memory registered with CUDA. Needs a GPU at run time only
// in make_cuda_device(). This header needs no CUDA.
#pragma once

#include "core/result.hpp"
#include "kernels/compute.hpp"
#include "kernels/model/model_weights.hpp"

#include <cstdint>
#include <memory>

namespace dualpath::kernels {

struct cuda_options {
  kernels::kv_dtype kv_dtype = kernels::kv_dtype::bf16;
  std::uint32_t block_tokens = 64;
  int device = 0; ///< as CUDA counts them
};

/// GPUs this process can use; 0 where there is no driver.
int cuda_device_count();

/// Copies the weights to the GPU. Errors: unsupported without a GPU or with a model the kernels cannot run;
/// invalid_argument; no_space where the weights do not fit.
core::result<std::unique_ptr<compute_device>> make_cuda_device(std::shared_ptr<const model_weights> weights,
                                                               const cuda_options& options);

} // namespace dualpath::kernels

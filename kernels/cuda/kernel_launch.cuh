// Queues a kernel; for inclusion by the .cu files.
#pragma once

#include "kernels/cuda/launch.hpp"

#include <cuda_runtime.h>

namespace dualpath::kernels::cuda {

template <class... Args>
cudaError_t launch_kernel(cudaStream_t stream, dim3 grid, unsigned threads, void (*kernel)(Args...),
                          Args... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3{threads, 1, 1};
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

/// The KV row of a position in the layer of the table.
__device__ inline std::byte* kv_row(const kv_table& kv, std::uint32_t entry, std::uint32_t position) {
  return kv.blocks[kv.first_block[entry] + position / kv.block_tokens] + kv.layer * kv.layer_stride[entry]
         + std::uint64_t{position % kv.block_tokens} * kv.token_bytes;
}

} // namespace dualpath::kernels::cuda

// The language of CUDA kernels on the CPU: keywords, built-in variables, and thread blocks whose threads take
// turns.
#pragma once

#include "cuda_runtime_api.h"

#include <bit>
#include <functional>
#include <math.h>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

extern uint3 threadIdx, blockIdx;

/// Every thread of the block gets here before any goes on.
void __syncthreads();

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }

namespace cuda_emulation {
/// Runs one thread block after another. The threads of a block take turns, in an order that changes at every
/// barrier, so that a missing barrier shows. Ends the process where only some threads of a block reach a
/// barrier.
void run_grid(dim3 grid, unsigned threads, const std::function<void()>& thread);
} // namespace cuda_emulation

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  if (config->gridDim.x == 0 || config->gridDim.y == 0 || config->gridDim.y > 65535
      || config->blockDim.x > 1024)
    return cudaErrorInvalidValue;
  cuda_emulation::run_grid(config->gridDim, config->blockDim.x, [&] { kernel(arguments...); });
  return cudaSuccess;
}

// Scalar arithmetic of the kernels: the same operations in the same order as the CPU kernels, so that both
// give the same bits. Files that include this are compiled without contraction; multiply-adds are fused only
// where written.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace dualpath::kernels::cuda {

__device__ inline float float_of_bits(std::uint32_t bits) { return __uint_as_float(bits); }
__device__ inline std::uint32_t bits_of_float(float value) { return __float_as_uint(value); }

/// e^x: zero below -87, exactly one at zero, finite up to 88; larger x are taken as 88.
__device__ inline float exponential(float x) {
  auto larger = [](float a, float b) { return a > b ? a : b; };
  float clamped = 0.0F - larger(0.0F - x, -88.0F);
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits.
  const float round = 12582912.0F;
  float shifted = fmaf(clamped, 1.44269504F, round);
  float n = shifted - round;
  float r = fmaf(n, -0.693359375F, clamped);
  r = fmaf(n, 2.12194440e-4F, r);
  float p = 1.9875691500e-4F;
  p = fmaf(p, r, 1.3981999507e-3F);
  p = fmaf(p, r, 8.3334519073e-3F);
  p = fmaf(p, r, 4.1665795894e-2F);
  p = fmaf(p, r, 1.6666665459e-1F);
  p = fmaf(p, r, 5.0000001201e-1F);
  p = fmaf(p, r * r, r) + 1.0F;
  float scaled = float_of_bits(bits_of_float(p) + (bits_of_float(shifted) << 23));
  return x >= -87.0F ? scaled : 0.0F;
}

/// Sum of 16 lanes in one fixed tree; the lanes are overwritten.
__device__ inline float sum_lanes(float* lanes) {
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  return lanes[0];
}

__device__ inline std::uint16_t to_bf16(float value) {
  auto bits = bits_of_float(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(std::uint16_t bf16) { return float_of_bits(std::uint32_t{bf16} << 16); }

} // namespace dualpath::kernels::cuda

// The inner loops of the CPU device, compiled once for every instruction set and chosen at run time. All of
// them work on groups of 16 lanes in one fixed order and use fused multiply-adds only where written, so every
// set gives the same bits; a row's result never depends on which other rows are computed with it.
#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dualpath::kernels {

/// C[m][panel columns] = A[m][k] · panels, each output summed over k in rising order by fused multiply-adds.
struct gemm_args {
  enum class start : std::uint8_t { zero, bias, stored };

  const float* a = nullptr;
  std::size_t a_stride = 0; ///< floats between rows
  std::uint32_t rows = 0;
  std::uint32_t inputs = 0;
  const float* panels = nullptr; ///< [panel_count][inputs][32]
  std::uint32_t panel_count = 0;
  float* c = nullptr; ///< whole panels are written
  std::size_t c_stride = 0;
  start from = start::zero;
  const float* bias = nullptr; ///< [panel_count * 32], where `from` says so
};

/// An online softmax over some of the positions: the weighted sum of values, relative to exp(maximum).
struct softmax_state {
  float* maximum = nullptr;
  float* sum = nullptr;
  float* output = nullptr;
  std::size_t output_width = 0; ///< a multiple of 16
};

/// Positions a softmax step looks at together, on multiples of itself.
constexpr std::uint32_t attention_tile = 64;

struct kernel_table {
  const char* name;
  void (*gemm)(const gemm_args& args);
  /// out = x / rms(x) * weight; `width` floats are read and written, zero past `count`; width is a multiple
  /// of 16.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, std::size_t count, std::size_t width,
                   float* out);
  /// out[32 i + j] = silu(gate_up[64 i + j]) * gate_up[64 i + 32 + j] for `panels` pairs of 32.
  void (*silu_multiply)(const float* gate_up, std::size_t panels, float* out);
  /// x += y; width is a multiple of 16.
  void (*add)(float* x, const float* y, std::size_t width);
  /// Takes a tile of scores into `state`, whose output is only rescaled. The scores become exp(score -
  /// maximum), and zero from `visible` (at least 1) on.
  void (*softmax_step)(const softmax_state& state, float* scores, std::uint32_t visible);
  /// Joins a state over other positions into `into`.
  void (*softmax_merge)(const softmax_state& into, const softmax_state& other);
  /// Rows of `dims` elements to a K tile: out[tile / 32][dims][32], zero for rows past `count`.
  void (*pack_keys_f32)(const std::byte* const* rows, std::uint32_t count, std::uint32_t dims, float* out);
  void (*pack_keys_bf16)(const std::byte* const* rows, std::uint32_t count, std::uint32_t dims, float* out);
  /// Rows to a V tile: out[ceil(dims / 32)][tile][32], zero outside.
  void (*pack_values_f32)(const std::byte* const* rows, std::uint32_t count, std::uint32_t dims, float* out);
  void (*pack_values_bf16)(const std::byte* const* rows, std::uint32_t count, std::uint32_t dims, float* out);
  /// out[i] = exp(x[i]) for `count` floats, in place allowed; count is a multiple of 16.
  void (*exponential)(const float* x, std::size_t count, float* out);
};

extern const kernel_table portable_kernels; ///< correct everywhere, slow: no vector unit is assumed
extern const kernel_table avx2_kernels;
extern const kernel_table avx512_kernels;

/// Those this processor can run, fastest first.
std::vector<const kernel_table*> available_kernels();
const kernel_table& best_kernels();

} // namespace dualpath::kernels

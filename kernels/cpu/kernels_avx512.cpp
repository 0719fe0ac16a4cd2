#if defined(__AVX512F__)
#define DUALPATH_SIMD_AVX512

namespace {
// 24 sums, two columns of weights and one broadcast value fill 27 of the 32 registers.
constexpr int tile_rows = 12;
constexpr int tile_groups = 2;
} // namespace

#include "kernels/cpu/kernels_body.hpp"

namespace dualpath::kernels {
const kernel_table avx512_kernels = make_table("avx512");
} // namespace dualpath::kernels
#endif

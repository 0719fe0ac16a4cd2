#if defined(__AVX2__)
#define DUALPATH_SIMD_AVX2

namespace {
// 12 sums, two halves of a group of weights and one broadcast value fill 15 of the 16 registers.
constexpr int tile_rows = 6;
constexpr int tile_groups = 1;
} // namespace

#include "kernels/cpu/kernels_body.hpp"

namespace dualpath::kernels {
const kernel_table avx2_kernels = make_table("avx2");
} // namespace dualpath::kernels
#endif

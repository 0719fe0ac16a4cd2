namespace {
constexpr int tile_rows = 4;
constexpr int tile_groups = 1;
} // namespace

#include "kernels/cpu/kernels_body.hpp"

namespace dualpath::kernels {
const kernel_table portable_kernels = make_table("portable");
} // namespace dualpath::kernels

// Products with packed weights. Two kernels, for few and for many rows, with the same order of additions:
// each output starts at its bias (or zero) and takes one fused multiply-add for every input, in rising order.
#include "kernels/cuda/kernel_launch.cuh"

namespace dualpath::kernels::cuda {
namespace {

constexpr unsigned panel_columns = 32;

__device__ inline void store_output(const gemm_args& args, std::uint32_t row, std::uint32_t column,
                                    float sum) {
  if (row >= args.rows || column >= args.outputs) return;
  auto* to = args.c + row * args.c_stride + column;
  *to = args.add ? *to + sum : sum;
}

// Decode: each thread has one column for all rows, so weights stream through once, a panel's 32 columns side
// by side.
constexpr unsigned few_threads = 128;
constexpr unsigned few_inputs = 256;

template <int Rows>
__global__ void __launch_bounds__(few_threads) gemm_few_rows(gemm_args args) {
  __shared__ float a[Rows][few_inputs];
  auto column = blockIdx.x * few_threads + threadIdx.x;
  bool inside = column < args.outputs;
  const auto* weights = args.panels + std::size_t{column / panel_columns} * args.inputs * panel_columns
                        + column % panel_columns;
  float sum[Rows];
  for (int r = 0; r < Rows; ++r) sum[r] = inside && args.bias ? args.bias[column] : 0.0F;
  for (std::uint32_t first = 0; first < args.inputs; first += few_inputs) {
    auto inputs = args.inputs - first < few_inputs ? args.inputs - first : few_inputs;
    __syncthreads();
    for (int r = 0; r < Rows; ++r)
      for (auto k = threadIdx.x; k < inputs; k += few_threads)
        a[r][k] = r < static_cast<int>(args.rows) ? args.a[r * args.a_stride + first + k] : 0.0F;
    __syncthreads();
    if (!inside) continue;
#pragma unroll 16
    for (std::uint32_t k = 0; k < inputs; ++k) {
      auto weight = weights[std::size_t{first + k} * panel_columns];
      for (int r = 0; r < Rows; ++r) sum[r] = fmaf(a[r][k], weight, sum[r]);
    }
  }
  for (int r = 0; r < Rows; ++r) store_output(args, r, column, sum[r]);
}

// Prefill: tiles of TileRows × 64 outputs, each thread TileRows / 16 by 4 of them.
constexpr unsigned tile_columns = 64;
constexpr unsigned tile_inputs = 16;
constexpr unsigned tile_threads = 256;

template <int TileRows>
__device__ void load_tiles(const gemm_args& args, std::uint32_t first_row, std::uint32_t first_column,
                           std::uint32_t first_input, float (*a)[TileRows + 1], float (*b)[tile_columns]) {
  for (auto e = threadIdx.x; e < TileRows * tile_inputs; e += tile_threads) {
    auto row = first_row + e / tile_inputs;
    auto input = first_input + e % tile_inputs;
    a[e % tile_inputs][e / tile_inputs] =
        row < args.rows && input < args.inputs ? args.a[row * args.a_stride + input] : 0.0F;
  }
  for (auto e = threadIdx.x; e < tile_columns * tile_inputs; e += tile_threads) {
    auto column = first_column + e % tile_columns;
    auto input = first_input + e / tile_columns;
    bool inside = column < args.outputs && input < args.inputs;
    auto place =
        (std::size_t{column / panel_columns} * args.inputs + input) * panel_columns + column % panel_columns;
    b[e / tile_columns][e % tile_columns] = inside ? args.panels[place] : 0.0F;
  }
}

template <int TileRows>
__global__ void __launch_bounds__(tile_threads) gemm_many_rows(gemm_args args) {
  constexpr int rows = TileRows / 16;
  constexpr int columns = tile_columns / 16;
  __shared__ float a[tile_inputs][TileRows + 1];
  __shared__ float b[tile_inputs][tile_columns];
  auto first_row = blockIdx.y * TileRows;
  auto first_column = blockIdx.x * tile_columns;
  auto x = threadIdx.x % 16, y = threadIdx.x / 16;
  float sum[rows][columns];
  for (int j = 0; j < columns; ++j) {
    auto column = first_column + x + 16 * j;
    for (int i = 0; i < rows; ++i) sum[i][j] = args.bias && column < args.outputs ? args.bias[column] : 0.0F;
  }
  for (std::uint32_t first = 0; first < args.inputs; first += tile_inputs) {
    load_tiles<TileRows>(args, first_row, first_column, first, a, b);
    __syncthreads();
    auto inputs = args.inputs - first < tile_inputs ? args.inputs - first : tile_inputs;
    for (std::uint32_t k = 0; k < inputs; ++k)
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) sum[i][j] = fmaf(a[k][y + 16 * i], b[k][x + 16 * j], sum[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      store_output(args, first_row + y + 16 * i, first_column + x + 16 * j, sum[i][j]);
}

template <int Rows>
cudaError_t few(cudaStream_t stream, const gemm_args& args) {
  return launch_kernel(stream, dim3{(args.outputs + few_threads - 1) / few_threads, 1, 1}, few_threads,
                       gemm_few_rows<Rows>, args);
}

template <int TileRows>
cudaError_t many(cudaStream_t stream, const gemm_args& args) {
  dim3 grid{(args.outputs + tile_columns - 1) / tile_columns, (args.rows + TileRows - 1) / TileRows, 1};
  return launch_kernel(stream, grid, tile_threads, gemm_many_rows<TileRows>, args);
}

} // namespace

cudaError_t launch_gemm(cudaStream_t stream, const gemm_args& args) {
  if (args.rows == 1) return few<1>(stream, args);
  if (args.rows <= 4) return few<4>(stream, args);
  if (args.rows <= 8) return few<8>(stream, args);
  return args.rows <= 64 ? many<32>(stream, args) : many<128>(stream, args);
}

} // namespace dualpath::kernels::cuda

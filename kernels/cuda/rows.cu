// Kernels that take every row of a batch by itself: norm, rotary positions with storing of KV rows, gated
// activation.
#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/cuda/numerics.cuh"

namespace dualpath::kernels::cuda {
namespace {

constexpr unsigned norm_threads = 256;
constexpr unsigned lanes = 16;

__global__ void __launch_bounds__(norm_threads) rms_norm(norm_args args) {
  __shared__ float squares[lanes];
  __shared__ float scale;
  auto row = args.rows ? args.rows[blockIdx.x] : blockIdx.x;
  const auto* x = args.from + std::size_t{row} * args.width;
  auto* out = args.to + std::size_t{blockIdx.x} * args.width;
  // The sum of squares has the order of the CPU: sixteen lanes, then a tree.
  if (threadIdx.x < lanes) {
    float sum = 0.0F;
#pragma unroll 8
    for (auto i = threadIdx.x; i < args.width; i += lanes) sum = fmaf(x[i], x[i], sum);
    squares[threadIdx.x] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    auto mean = sum_lanes(squares) / static_cast<float>(args.width) + args.epsilon;
    scale = 1.0F / sqrtf(mean);
  }
  __syncthreads();
  for (auto i = threadIdx.x; i < args.width; i += norm_threads) out[i] = x[i] * scale * args.weight[i];
}

constexpr unsigned rotate_threads = 128;

template <class Element>
__device__ void store_row(std::byte* to, const float* values, std::uint32_t count);
template <>
__device__ void store_row<float>(std::byte* to, const float* values, std::uint32_t count) {
  for (auto i = threadIdx.x; i < count; i += rotate_threads) reinterpret_cast<float*>(to)[i] = values[i];
}
template <>
__device__ void store_row<std::uint16_t>(std::byte* to, const float* values, std::uint32_t count) {
  for (auto i = threadIdx.x; i < count; i += rotate_threads)
    reinterpret_cast<std::uint16_t*>(to)[i] = to_bf16(values[i]);
}

template <class Element>
__global__ void __launch_bounds__(rotate_threads) rotate_and_store(rotate_args args) {
  auto width = args.shape.query_width() + 2 * args.shape.kv_width();
  auto* heads = args.qkv + std::size_t{blockIdx.x} * width;
  const auto* cosines = args.angles + std::size_t{blockIdx.x} * args.shape.head_dim;
  auto half = args.shape.head_dim / 2;
  auto pairs = (args.shape.query_heads + args.shape.kv_heads) * half;
  for (auto i = threadIdx.x; i < pairs; i += rotate_threads) {
    auto* head = heads + std::size_t{i / half} * args.shape.head_dim;
    auto d = i % half;
    auto x = head[d], y = head[half + d];
    auto cosine = cosines[d], sine = cosines[half + d];
    head[d] = x * cosine - y * sine;
    head[half + d] = y * cosine + x * sine;
  }
  __syncthreads();
  auto row = args.rows[blockIdx.x];
  store_row<Element>(kv_row(args.kv, row.entry, row.position), heads + args.shape.query_width(),
                     2 * args.shape.kv_width());
}

constexpr unsigned silu_threads = 256;

__global__ void __launch_bounds__(silu_threads)
    silu_multiply(const float* gate_up, std::uint32_t columns, float* out) {
  auto column = blockIdx.x * silu_threads + threadIdx.x;
  if (column >= columns) return;
  const auto* pair = gate_up + std::size_t{blockIdx.y} * 2 * columns + column / 32 * 64 + column % 32;
  auto gate = pair[0];
  out[std::size_t{blockIdx.y} * columns + column] = gate / (1.0F + exponential(0.0F - gate)) * pair[32];
}

} // namespace

cudaError_t launch_rms_norm(cudaStream_t stream, const norm_args& args) {
  return launch_kernel(stream, dim3{args.row_count, 1, 1}, norm_threads, rms_norm, args);
}

cudaError_t launch_rotate_and_store(cudaStream_t stream, const rotate_args& args) {
  auto kernel = args.kv.bf16 ? rotate_and_store<std::uint16_t> : rotate_and_store<float>;
  return launch_kernel(stream, dim3{args.row_count, 1, 1}, rotate_threads, kernel, args);
}

cudaError_t launch_silu_multiply(cudaStream_t stream, const float* gate_up, std::uint32_t rows,
                                 std::uint32_t panels, float* out) {
  auto columns = panels * 32;
  return launch_kernel(stream, dim3{(columns + silu_threads - 1) / silu_threads, rows, 1}, silu_threads,
                       silu_multiply, gate_up, columns, out);
}

} // namespace dualpath::kernels::cuda

// Causal attention over KV rows in Layer Blocks. Positions are taken in tiles of 64 and the tiles in segments
// of 256, on absolute positions; each row softmaxes within a segment, and joins the segments in order. So a
// row's result is the same bits whether one thread block has all its segments (prefill) or many have one each
// (decode), as on the CPU.
#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/cuda/numerics.cuh"

namespace dualpath::kernels::cuda {
namespace {

constexpr unsigned threads = 128;
constexpr std::uint32_t key_dims = 32;        ///< of a key tile in shared memory at a time
constexpr std::uint32_t value_positions = 16; ///< of a value tile likewise

__device__ inline float minus_infinity() { return float_of_bits(0xff800000U); }
constexpr std::uint32_t larger_of(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

/// The rows of a thread block: some tokens of one entry times some heads of one KV head.
struct block_rows {
  attention_task task;
  head_shape shape;
  std::uint32_t kv_head;
  std::uint32_t first_head; ///< of all query heads

  __device__ block_rows(const attention_args& args)
      : task{args.tasks[blockIdx.x]},
        shape{args.shape},
        kv_head{blockIdx.y / args.shape.chunks()},
        first_head{kv_head * args.shape.group()
                   + blockIdx.y % args.shape.chunks() * args.shape.heads_per_block()} {}
  __device__ std::uint32_t head(std::uint32_t row) const {
    return first_head + row % shape.heads_per_block();
  }
  __device__ std::uint32_t token(std::uint32_t row) const { return row / shape.heads_per_block(); }
  __device__ bool exists(std::uint32_t row) const {
    return token(row) < task.tokens && head(row) < (kv_head + 1) * shape.group();
  }
  __device__ std::uint32_t position(std::uint32_t row) const { return task.position + token(row); }
  __device__ bool sees(std::uint32_t row, std::uint32_t first) const {
    return exists(row) && position(row) >= first;
  }
  __device__ std::uint32_t last_position() const { return task.position + task.tokens - 1; }
};

template <int Dim>
struct shared_state {
  float queries[attention_rows * Dim];
  float tile[larger_of(value_positions * Dim, attention_tile*(key_dims + 1))];
  float scores[attention_rows * attention_tile];
  float maximum[attention_rows], sum[attention_rows], rescale[attention_rows]; ///< of the segment
  float total_maximum[attention_rows], total_sum[attention_rows], keep[attention_rows], take[attention_rows];
};

/// A thread's share of the weighted sums of all rows: element i is place() = threadIdx.x + threads * i of
/// [rows][Dim].
template <int Dim>
struct thread_sums {
  static constexpr int count = attention_rows * Dim / threads;
  float value[count];

  __device__ static std::uint32_t place(int i) { return threadIdx.x + threads * i; }
  __device__ static std::uint32_t row(int i) { return place(i) / Dim; }
  __device__ static std::uint32_t dim(int i) { return place(i) % Dim; }
  __device__ void clear() {
    for (int i = 0; i < count; ++i) value[i] = 0.0F;
  }
};

template <int Dim>
__device__ void load_queries(const attention_args& args, const block_rows& rows, shared_state<Dim>& shared) {
  for (auto e = threadIdx.x; e < attention_rows * Dim; e += threads) {
    auto row = e / Dim, d = e % Dim;
    bool inside = rows.exists(row) && d < args.shape.head_dim;
    auto place = (rows.task.row + rows.token(row)) * args.query_stride
                 + std::size_t{rows.head(row)} * args.shape.head_dim;
    shared.queries[e] = inside ? args.queries[place + d] * args.scale : 0.0F;
  }
}

/// Scores of all rows against the `count` positions from `first` on.
template <class Element, int Dim>
__device__ void score_tile(const attention_args& args, const block_rows& rows, std::uint32_t first,
                           std::uint32_t count, shared_state<Dim>& shared) {
  constexpr int rows_per_thread = attention_rows * attention_tile / threads;
  auto position = threadIdx.x % attention_tile;
  auto first_row = threadIdx.x / attention_tile;
  constexpr auto row_step = threads / attention_tile;
  float score[rows_per_thread];
  for (int i = 0; i < rows_per_thread; ++i) score[i] = 0.0F;
  for (std::uint32_t dims = 0; dims < args.shape.head_dim; dims += key_dims) {
    auto width = args.shape.head_dim - dims < key_dims ? args.shape.head_dim - dims : key_dims;
    __syncthreads();
    for (auto e = threadIdx.x; e < attention_tile * key_dims; e += threads) {
      auto p = e / key_dims, d = e % key_dims;
      float key = 0.0F;
      if (p < count && d < width)
        key = widened(reinterpret_cast<const Element*>(
            kv_row(args.kv, rows.task.entry, first + p))[rows.kv_head * args.shape.head_dim + dims + d]);
      shared.tile[p * (key_dims + 1) + d] = key;
    }
    __syncthreads();
    for (std::uint32_t d = 0; d < width; ++d) {
      auto key = shared.tile[position * (key_dims + 1) + d];
      for (int i = 0; i < rows_per_thread; ++i)
        score[i] = fmaf(shared.queries[(first_row + row_step * i) * Dim + dims + d], key, score[i]);
    }
  }
  for (int i = 0; i < rows_per_thread; ++i)
    shared.scores[(first_row + row_step * i) * attention_tile + position] = score[i];
}

/// The positions of a tile that a row sees; 0 where the tile lies after it.
__device__ inline std::uint32_t visible_positions(const block_rows& rows, std::uint32_t row,
                                                  std::uint32_t first) {
  if (!rows.sees(row, first)) return 0;
  auto visible = rows.position(row) + 1 - first;
  return visible < attention_tile ? visible : attention_tile;
}

/// Takes the scores of a tile into the segment's maxima and sums; they become weights.
template <int Dim>
__device__ void softmax_step(const block_rows& rows, std::uint32_t first, shared_state<Dim>& shared) {
  __syncthreads();
  if (threadIdx.x < attention_rows) {
    auto row = threadIdx.x;
    auto visible = visible_positions(rows, row, first);
    auto before = shared.maximum[row];
    auto maximum = before;
    for (std::uint32_t p = 0; p < visible; ++p) {
      auto score = shared.scores[row * attention_tile + p];
      maximum = maximum > score ? maximum : score;
    }
    shared.rescale[row] = maximum == before ? 1.0F : exponential(before - maximum);
    shared.maximum[row] = maximum;
  }
  __syncthreads();
  for (auto e = threadIdx.x; e < attention_rows * attention_tile; e += threads) {
    auto row = e / attention_tile, p = e % attention_tile;
    auto visible = visible_positions(rows, row, first);
    shared.scores[e] = p < visible ? exponential(shared.scores[e] - shared.maximum[row]) : 0.0F;
  }
  __syncthreads();
  if (threadIdx.x < attention_rows && rows.sees(threadIdx.x, first)) {
    const auto* weights = shared.scores + threadIdx.x * attention_tile;
    float lanes[16];
    for (int lane = 0; lane < 16; ++lane)
      lanes[lane] = weights[lane] + weights[16 + lane] + weights[32 + lane] + weights[48 + lane];
    shared.sum[threadIdx.x] = fmaf(shared.sum[threadIdx.x], shared.rescale[threadIdx.x], sum_lanes(lanes));
  }
}

/// Adds the weighted values of a tile.
template <class Element, int Dim>
__device__ void weigh_tile(const attention_args& args, const block_rows& rows, std::uint32_t first,
                           std::uint32_t count, shared_state<Dim>& shared, thread_sums<Dim>& sums) {
  for (int i = 0; i < sums.count; ++i) sums.value[i] = sums.value[i] * shared.rescale[sums.row(i)];
  for (std::uint32_t piece = 0; piece < count; piece += value_positions) {
    __syncthreads();
    for (auto e = threadIdx.x; e < value_positions * Dim; e += threads) {
      auto p = piece + e / Dim, d = e % Dim;
      float value = 0.0F;
      if (p < count && d < args.shape.head_dim)
        value = widened(reinterpret_cast<const Element*>(
            kv_row(args.kv, rows.task.entry,
                   first + p))[args.shape.kv_width() + rows.kv_head * args.shape.head_dim + d]);
      shared.tile[e] = value;
    }
    __syncthreads();
    for (std::uint32_t p = 0; p < value_positions; ++p)
      for (int i = 0; i < sums.count; ++i)
        sums.value[i] = fmaf(shared.scores[sums.row(i) * attention_tile + piece + p],
                             shared.tile[p * Dim + sums.dim(i)], sums.value[i]);
  }
}

template <class Element, int Dim>
__device__ void run_segment(const attention_args& args, const block_rows& rows, std::uint32_t segment,
                            shared_state<Dim>& shared, thread_sums<Dim>& sums) {
  __syncthreads();
  if (threadIdx.x < attention_rows) {
    shared.maximum[threadIdx.x] = minus_infinity();
    shared.sum[threadIdx.x] = 0.0F;
  }
  sums.clear();
  auto end = (segment + 1) * attention_segment;
  if (rows.last_position() + 1 < end) end = rows.last_position() + 1;
  for (auto first = segment * attention_segment; first < end; first += attention_tile) {
    // Rows past the last token may not be computed yet, or lie in no block.
    auto count = end - first < attention_tile ? end - first : attention_tile;
    score_tile<Element, Dim>(args, rows, first, count, shared);
    softmax_step<Dim>(rows, first, shared);
    __syncthreads();
    weigh_tile<Element, Dim>(args, rows, first, count, shared, sums);
  }
  __syncthreads();
}

/// Joins a segment's state into the totals. `maximum` and `sum` of the segment are those in shared memory.
template <int Dim>
__device__ void merge_segment(const block_rows& rows, std::uint32_t segment, shared_state<Dim>& shared,
                              const thread_sums<Dim>& sums, thread_sums<Dim>& totals) {
  if (threadIdx.x < attention_rows) {
    auto row = threadIdx.x;
    shared.keep[row] = 1.0F;
    shared.take[row] = 0.0F;
    if (rows.sees(row, segment * attention_segment)) {
      auto into = shared.total_maximum[row], other = shared.maximum[row];
      auto maximum = into > other ? into : other;
      auto keep = exponential(into - maximum), take = exponential(other - maximum);
      shared.total_maximum[row] = maximum;
      shared.total_sum[row] = fmaf(shared.sum[row], take, shared.total_sum[row] * keep);
      shared.keep[row] = keep;
      shared.take[row] = take;
    }
  }
  __syncthreads();
  for (int i = 0; i < sums.count; ++i)
    totals.value[i] =
        fmaf(sums.value[i], shared.take[sums.row(i)], totals.value[i] * shared.keep[sums.row(i)]);
  __syncthreads();
}

template <int Dim>
__device__ void clear_totals(shared_state<Dim>& shared, thread_sums<Dim>& totals) {
  totals.clear();
  if (threadIdx.x < attention_rows) {
    shared.total_maximum[threadIdx.x] = minus_infinity();
    shared.total_sum[threadIdx.x] = 0.0F;
  }
}

template <int Dim>
__device__ void write_output(const attention_args& args, const block_rows& rows,
                             const shared_state<Dim>& shared, const thread_sums<Dim>& totals) {
  for (int i = 0; i < totals.count; ++i) {
    auto row = totals.row(i), d = totals.dim(i);
    if (!rows.exists(row) || d >= args.shape.head_dim) continue;
    auto place = std::size_t{rows.task.row + rows.token(row)} * args.shape.query_width()
                 + std::size_t{rows.head(row)} * args.shape.head_dim + d;
    // Adding zero makes -0 into +0, the one difference that masked positions could leave.
    args.output[place] = totals.value[i] / shared.total_sum[row] + 0.0F;
  }
}

/// One segment's states of this head block: maxima, sums, then weighted sums.
__device__ inline float* partial_of(const attention_args& args, std::int64_t index) {
  auto floats = std::size_t{args.partial_rows} * (2 + args.shape.head_dim);
  return args.partials + (index * args.shape.head_blocks() + blockIdx.y) * floats;
}

template <int Dim>
__device__ void store_partial(const attention_args& args, const shared_state<Dim>& shared,
                              const thread_sums<Dim>& sums, float* to) {
  auto rows = args.partial_rows;
  if (threadIdx.x < rows) {
    to[threadIdx.x] = shared.maximum[threadIdx.x];
    to[rows + threadIdx.x] = shared.sum[threadIdx.x];
  }
  for (int i = 0; i < sums.count; ++i)
    if (sums.row(i) < rows && sums.dim(i) < args.shape.head_dim)
      to[2 * rows + sums.row(i) * args.shape.head_dim + sums.dim(i)] = sums.value[i];
}

template <int Dim>
__device__ void load_partial(const attention_args& args, const float* from, shared_state<Dim>& shared,
                             thread_sums<Dim>& sums) {
  auto rows = args.partial_rows;
  if (threadIdx.x < rows) {
    shared.maximum[threadIdx.x] = from[threadIdx.x];
    shared.sum[threadIdx.x] = from[rows + threadIdx.x];
  }
  for (int i = 0; i < sums.count; ++i) {
    bool inside = sums.row(i) < rows && sums.dim(i) < args.shape.head_dim;
    sums.value[i] = inside ? from[2 * rows + sums.row(i) * args.shape.head_dim + sums.dim(i)] : 0.0F;
  }
  __syncthreads();
}

template <class Element, int Dim>
__global__ void __launch_bounds__(threads) attend(attention_args args) {
  __shared__ shared_state<Dim> shared;
  block_rows rows{args};
  thread_sums<Dim> sums, totals;
  load_queries<Dim>(args, rows, shared);
  clear_totals<Dim>(shared, totals);
  for (auto segment = rows.task.first_segment; segment < rows.task.last_segment; ++segment) {
    run_segment<Element, Dim>(args, rows, segment, shared, sums);
    if (rows.task.partial < 0) merge_segment<Dim>(rows, segment, shared, sums, totals);
  }
  if (rows.task.partial < 0)
    write_output<Dim>(args, rows, shared, totals);
  else
    store_partial<Dim>(args, shared, sums, partial_of(args, rows.task.partial));
}

template <int Dim>
__global__ void __launch_bounds__(threads) merge(attention_args args) {
  __shared__ shared_state<Dim> shared;
  block_rows rows{args};
  thread_sums<Dim> sums, totals;
  clear_totals<Dim>(shared, totals);
  for (auto segment = rows.task.first_segment; segment < rows.task.last_segment; ++segment) {
    load_partial<Dim>(args, partial_of(args, rows.task.partial + segment), shared, sums);
    merge_segment<Dim>(rows, segment, shared, sums, totals);
  }
  write_output<Dim>(args, rows, shared, totals);
}

/// The kernel for a head dimension: `pick` is called with the smallest of 64, 128 and 256 that holds it.
template <class Pick>
auto by_head_dim(std::uint32_t head_dim, Pick pick) {
  if (head_dim <= 64) return pick.template operator()<64>();
  if (head_dim <= 128) return pick.template operator()<128>();
  return pick.template operator()<256>();
}

struct attend_bf16 {
  template <int Dim>
  auto operator()() const {
    return attend<std::uint16_t, Dim>;
  }
};
struct attend_f32 {
  template <int Dim>
  auto operator()() const {
    return attend<float, Dim>;
  }
};
struct merge_of {
  template <int Dim>
  auto operator()() const {
    return merge<Dim>;
  }
};

} // namespace

cudaError_t launch_attention(cudaStream_t stream, const attention_args& args) {
  auto kernel = args.kv.bf16 ? by_head_dim(args.shape.head_dim, attend_bf16{})
                             : by_head_dim(args.shape.head_dim, attend_f32{});
  return launch_kernel(stream, dim3{args.task_count, args.shape.head_blocks(), 1}, threads, kernel, args);
}

cudaError_t launch_attention_merge(cudaStream_t stream, const attention_args& args) {
  auto kernel = by_head_dim(args.shape.head_dim, merge_of{});
  return launch_kernel(stream, dim3{args.task_count, args.shape.head_blocks(), 1}, threads, kernel, args);
}

} // namespace dualpath::kernels::cuda

// The kernels of the CUDA device as plain functions: each queues one kernel on a stream and returns at once.
// Pointers are device memory; matrices are laid out as packed_matrix (32 output columns side by side, for one
// input after another). A row's result depends on that row alone: every output is summed in one fixed order,
// whatever the number of rows. The orders are those of the CPU kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace dualpath::kernels::cuda {

/// Positions a softmax step looks at together, and positions whose states are joined in order; both as on the
/// CPU.
constexpr std::uint32_t attention_tile = 64;
constexpr std::uint32_t attention_segment = 256;
/// Query rows (tokens × heads of one KV head) of a thread block.
constexpr std::uint32_t attention_rows = 16;
constexpr std::uint32_t max_head_dim = 256;

/// Where the KV rows of one layer are, for all entries of a batch.
struct kv_table {
  std::byte* const* blocks = nullptr;          ///< of all entries, one after another
  const std::uint32_t* first_block = nullptr;  ///< of each entry, in `blocks`
  const std::uint64_t* layer_stride = nullptr; ///< of each entry, bytes
  std::uint32_t layer = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t token_bytes = 0;
  bool bf16 = false; ///< else float
};

/// One row of a batch.
struct row_info {
  std::uint32_t entry = 0;
  std::uint32_t position = 0;
};

/// Consecutive rows of one entry, over segments [first_segment, last_segment).
struct attention_task {
  std::uint32_t entry = 0;
  std::uint32_t row = 0; ///< the first, in the buffers
  std::uint32_t position = 0;
  std::uint32_t tokens = 0; ///< at most tokens_per_task()
  std::uint32_t first_segment = 0;
  std::uint32_t last_segment = 0;
  /// None: the task has all segments and writes the output. Else it has one segment, whose states go to this
  /// place; of a merge, the place of segment 0.
  std::int64_t partial = -1;
};

struct head_shape {
  std::uint32_t query_heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;

  constexpr std::uint32_t group() const { return query_heads / kv_heads; }
  /// Query heads of one KV head that a thread block takes, and how many thread blocks that makes for all
  /// heads.
  constexpr std::uint32_t heads_per_block() const {
    return group() < attention_rows ? group() : attention_rows;
  }
  constexpr std::uint32_t chunks() const { return (group() + heads_per_block() - 1) / heads_per_block(); }
  constexpr std::uint32_t head_blocks() const { return kv_heads * chunks(); }
  constexpr std::uint32_t tokens_per_task() const { return attention_rows / heads_per_block(); }
  constexpr std::uint32_t query_width() const { return query_heads * head_dim; }
  constexpr std::uint32_t kv_width() const { return kv_heads * head_dim; }
};

/// Floats of the states of one segment of a task: all head blocks, maxima, sums and weighted sums of `rows`
/// rows.
constexpr std::size_t partial_floats(const head_shape& shape, std::uint32_t rows) {
  return std::size_t{shape.head_blocks()} * rows * (2 + shape.head_dim);
}

struct attention_args {
  const float* queries = nullptr; ///< [rows][query_stride], rotated
  std::size_t query_stride = 0;
  float* output = nullptr; ///< [rows][query width]
  const attention_task* tasks = nullptr;
  std::uint32_t task_count = 0;
  kv_table kv;
  head_shape shape;
  float scale = 0; ///< of the queries
  float* partials = nullptr;
  std::uint32_t partial_rows = 0; ///< rows a partial has room for
};

struct gemm_args {
  const float* a = nullptr;
  std::size_t a_stride = 0; ///< floats between rows
  std::uint32_t rows = 0;
  const float* panels = nullptr;
  const float* bias = nullptr; ///< or none
  std::uint32_t outputs = 0;
  std::uint32_t inputs = 0;
  float* c = nullptr; ///< `outputs` columns are written
  std::size_t c_stride = 0;
  bool add = false; ///< c += product, else c = product
};

struct norm_args {
  const float* from = nullptr;
  const std::uint32_t* rows = nullptr; ///< which of them, or none for all
  std::uint32_t row_count = 0;
  std::uint32_t width = 0;
  const float* weight = nullptr;
  float epsilon = 0;
  float* to = nullptr;
};

struct rotate_args {
  float* qkv = nullptr;          ///< [rows][query width + 2 KV widths]; queries and keys are rotated in place
  const float* angles = nullptr; ///< [rows][head_dim]: cosines, then sines
  const row_info* rows = nullptr;
  std::uint32_t row_count = 0;
  head_shape shape;
  kv_table kv;
};

cudaError_t launch_gemm(cudaStream_t stream, const gemm_args& args);
cudaError_t launch_rms_norm(cudaStream_t stream, const norm_args& args);
/// Rotates queries and keys, and writes keys and values to the KV rows.
cudaError_t launch_rotate_and_store(cudaStream_t stream, const rotate_args& args);
/// out[row][32 i + j] = silu(gate_up[row][64 i + j]) * gate_up[row][64 i + 32 + j] for `panels` pairs of 32.
cudaError_t launch_silu_multiply(cudaStream_t stream, const float* gate_up, std::uint32_t rows,
                                 std::uint32_t panels, float* out);
cudaError_t launch_attention(cudaStream_t stream, const attention_args& args);
/// Joins the partial states of split tasks; each of `tasks` then covers all its segments.
cudaError_t launch_attention_merge(cudaStream_t stream, const attention_args& args);

} // namespace dualpath::kernels::cuda

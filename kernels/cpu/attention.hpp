// Causal attention of a block of query rows over KV rows in Layer Blocks. Positions are taken in tiles of 64
// and the tiles in segments of 256, both on absolute positions; every row softmaxes within each segment and
// then joins the segments in order. So the result of a row is the same bits whether its segments are computed
// by one thread after another's rows (prefill) or side by side by several threads (decode).
#pragma once

#include "kernels/compute.hpp"
#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/model/model_weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace dualpath::kernels {

/// Where KV rows of one sequence in one layer are.
struct kv_rows {
  const kv_view* view = nullptr;
  std::uint64_t layer_offset = 0; ///< bytes from a block's start
  std::uint32_t block_tokens = 0;
  std::uint32_t token_bytes = 0;

  std::byte* row(std::uint32_t position) const {
    return view->blocks[position / block_tokens] + layer_offset
           + std::uint64_t{position % block_tokens} * token_bytes;
  }
};

/// Consecutive query rows of one sequence.
struct attention_job {
  kv_rows kv;
  std::uint32_t first_row = 0; ///< in the query and output buffers
  std::uint32_t first_position = 0;
  std::uint32_t tokens = 0;
};

struct attention_shape {
  std::uint32_t query_heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  kv_dtype type = kv_dtype::f32;
};

struct attention_buffers {
  const float* queries = nullptr; ///< rotated; head h at h * head_dim of its row
  std::size_t query_stride = 0;
  float* output = nullptr; ///< heads as in the queries
  std::size_t output_stride = 0;
};

/// Computes every job; the KV rows up to each query's own position must be in place. Reusable, not
/// thread-safe.
class attention {
public:
  attention(const attention_shape& shape, const kernel_table& kernels, thread_pool& pool);
  void run(std::span<const attention_job> jobs, const attention_buffers& buffers);

private:
  /// One KV head's query rows of some tokens, over segments [first_segment, last_segment).
  struct task {
    const attention_job* job = nullptr;
    std::uint32_t kv_head = 0;
    std::uint32_t first_token = 0;
    std::uint32_t tokens = 0;
    std::uint32_t first_segment = 0;
    std::uint32_t last_segment = 0;
    /// Where the states of the segments go when other tasks have the rest; then a merge follows.
    bool split = false;
    std::size_t partial = 0;

    std::uint32_t position(std::uint32_t token) const { return job->first_position + first_token + token; }
  };

  /// The softmax states of the rows of a task: maxima, sums, then outputs.
  struct rows_state {
    float* base = nullptr;
    std::uint32_t rows = 0;
    std::size_t width = 0;

    static std::size_t floats(std::uint32_t rows, std::size_t width) {
      // Whole groups of 16 keep every part aligned.
      return 2 * ((std::size_t{rows} + 15) / 16 * 16) + rows * width;
    }
    float* maxima() const { return base; }
    float* sums() const { return base + (std::size_t{rows} + 15) / 16 * 16; }
    float* outputs() const { return base + 2 * ((std::size_t{rows} + 15) / 16 * 16); }
    softmax_state row(std::uint32_t r) const {
      return {maxima() + r, sums() + r, outputs() + r * width, width};
    }
    void reset() const {
      std::fill_n(base, floats(rows, width), 0.0F);
      std::fill_n(maxima(), rows, -std::numeric_limits<float>::infinity());
    }
  };

  void plan(std::span<const attention_job> jobs);
  void run_task(const task& of, const attention_buffers& buffers);
  void run_segment(const task& of, std::uint32_t segment, const float* queries, rows_state& state,
                   float* scratch);
  void load_tile(const task& of, std::uint32_t first_position, float* keys, float* values) const;
  void merge_segments(const task& last, const attention_buffers& buffers);
  void write_output(const task& of, rows_state& state, const attention_buffers& buffers) const;

  std::uint32_t group() const { return shape_.query_heads / shape_.kv_heads; }

  attention_shape shape_;
  std::size_t padded_dim_;
  const kernel_table& kernels_;
  thread_pool& pool_;
  std::vector<task> tasks_;
  std::vector<task> merges_;
  std::vector<float> partials_;
};

} // namespace dualpath::kernels

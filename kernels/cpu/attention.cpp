#include "kernels/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace dualpath::kernels {
namespace {

constexpr std::uint32_t segment_positions = 256;
/// Query rows (tokens times heads of a group) one task takes, so that its scratch stays in the second cache.
constexpr std::uint32_t rows_per_task = 384;
/// Up to so many rows, the segments of a sequence are shared among threads: decode.
constexpr std::uint32_t rows_to_split = 16;

std::uint32_t segments_for(std::uint32_t positions) {
  return (positions + segment_positions - 1) / segment_positions;
}

float* thread_scratch(std::size_t floats) {
  thread_local float_buffer scratch;
  if (scratch.size() < floats) scratch = float_buffer{floats};
  return scratch.data();
}

} // namespace

attention::attention(const attention_shape& shape, const kernel_table& kernels, thread_pool& pool)
    : shape_{shape}, padded_dim_{(shape.head_dim + 31) / 32 * 32}, kernels_{kernels}, pool_{pool} {}

void attention::plan(std::span<const attention_job> jobs) {
  tasks_.clear();
  merges_.clear();
  std::size_t partial_floats = 0;
  auto tokens_per_task = std::max(1U, rows_per_task / group());
  for (const auto& job : jobs) {
    bool split = job.tokens * group() <= rows_to_split;
    auto state_floats = rows_state::floats(job.tokens * group(), padded_dim_);
    for (std::uint32_t head = 0; head < shape_.kv_heads; ++head) {
      if (split) {
        auto segments = segments_for(job.first_position + job.tokens);
        merges_.push_back({&job, head, 0, job.tokens, 0, segments, true, partial_floats});
        for (std::uint32_t s = 0; s < segments; ++s, partial_floats += state_floats)
          tasks_.push_back({&job, head, 0, job.tokens, s, s + 1, true, partial_floats});
        continue;
      }
      for (std::uint32_t first = 0; first < job.tokens; first += tokens_per_task) {
        auto tokens = std::min(tokens_per_task, job.tokens - first);
        tasks_.push_back(
            {&job, head, first, tokens, 0, segments_for(job.first_position + first + tokens), false, 0});
      }
    }
  }
  // Long tasks first: the last one to finish then is a short one.
  std::ranges::stable_sort(tasks_, std::greater{}, [](const task& of) {
    return std::uint64_t{of.tokens} * (of.last_segment - of.first_segment);
  });
  if (partials_.size() < partial_floats) partials_.resize(partial_floats);
}

void attention::run(std::span<const attention_job> jobs, const attention_buffers& buffers) {
  plan(jobs);
  std::uint64_t work = 0;
  for (const auto& of : tasks_)
    work += std::uint64_t{of.tokens} * group() * (of.last_segment - of.first_segment) * segment_positions
            * shape_.head_dim;
  // Waking others for less than some microseconds of work costs more than it gains.
  constexpr std::uint64_t worth_sharing = 60'000;
  if (work < worth_sharing)
    for (const auto& of : tasks_) run_task(of, buffers);
  else
    pool_.parallel_for(static_cast<std::uint32_t>(tasks_.size()),
                       [&](std::uint32_t i) { run_task(tasks_[i], buffers); });
  for (const auto& of : merges_) merge_segments(of, buffers);
}

void attention::run_task(const task& of, const attention_buffers& buffers) {
  auto rows = of.tokens * group();
  auto state_floats = rows_state::floats(rows, padded_dim_);
  auto tile_floats = attention_tile * (shape_.head_dim + padded_dim_);
  auto* scratch = thread_scratch(rows * (padded_dim_ + attention_tile) + tile_floats + 2 * state_floats);
  auto* queries = scratch;
  auto scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
  for (std::uint32_t t = 0; t < of.tokens; ++t) {
    const auto* from = buffers.queries + (of.job->first_row + of.first_token + t) * buffers.query_stride
                       + std::size_t{of.kv_head} * group() * shape_.head_dim;
    for (std::uint32_t g = 0; g < group(); ++g)
      for (std::uint32_t d = 0; d < shape_.head_dim; ++d)
        queries[(t * group() + g) * padded_dim_ + d] = from[g * shape_.head_dim + d] * scale;
  }
  auto* states = queries + rows * padded_dim_;
  auto* rest = states + 2 * state_floats;
  if (of.split) {
    rows_state segment{partials_.data() + of.partial, rows, padded_dim_};
    run_segment(of, of.first_segment, queries, segment, rest);
    return;
  }
  rows_state total{states, rows, padded_dim_};
  rows_state segment{states + state_floats, rows, padded_dim_};
  total.reset();
  for (auto s = of.first_segment; s < of.last_segment; ++s) {
    run_segment(of, s, queries, segment, rest);
    for (std::uint32_t r = 0; r < rows; ++r)
      if (of.position(r / group()) >= s * segment_positions)
        kernels_.softmax_merge(total.row(r), segment.row(r));
  }
  write_output(of, total, buffers);
}

void attention::run_segment(const task& of, std::uint32_t segment, const float* queries, rows_state& state,
                            float* scratch) {
  auto* scores = scratch;
  auto* keys = scores + std::size_t{state.rows} * attention_tile;
  auto* values = keys + attention_tile * shape_.head_dim;
  state.reset();
  auto end = std::min(of.position(of.tokens - 1) + 1, (segment + 1) * segment_positions);
  for (auto first = segment * segment_positions; first < end; first += attention_tile) {
    load_tile(of, first, keys, values);
    // Tokens before the tile see nothing of it.
    auto skipped = first > of.position(0) ? (first - of.position(0)) * group() : 0;
    gemm_args product{queries + skipped * padded_dim_,
                      padded_dim_,
                      state.rows - skipped,
                      shape_.head_dim,
                      keys,
                      attention_tile / packed_matrix::panel_columns,
                      scores + skipped * attention_tile,
                      attention_tile};
    kernels_.gemm(product);
    for (auto r = skipped; r < state.rows; ++r)
      kernels_.softmax_step(state.row(r), scores + r * attention_tile,
                            std::min(attention_tile, of.position(r / group()) + 1 - first));
    gemm_args weighted{scores + skipped * attention_tile,
                       attention_tile,
                       state.rows - skipped,
                       attention_tile,
                       values,
                       static_cast<std::uint32_t>(padded_dim_ / packed_matrix::panel_columns),
                       state.outputs() + skipped * padded_dim_,
                       padded_dim_,
                       gemm_args::start::stored};
    kernels_.gemm(weighted);
  }
}

void attention::load_tile(const task& of, std::uint32_t first_position, float* keys, float* values) const {
  // Rows past the task's last token may not be computed yet, or lie in no block.
  auto count = std::min(attention_tile, of.position(of.tokens - 1) + 1 - first_position);
  auto key_offset = std::uint64_t{of.kv_head} * shape_.head_dim * size_bytes(shape_.type);
  auto value_offset = key_offset + std::uint64_t{shape_.kv_heads} * shape_.head_dim * size_bytes(shape_.type);
  const std::byte* rows[attention_tile];
  for (std::uint32_t p = 0; p < count; ++p) rows[p] = of.job->kv.row(first_position + p) + key_offset;
  auto f32 = shape_.type == kv_dtype::f32;
  (f32 ? kernels_.pack_keys_f32 : kernels_.pack_keys_bf16)(rows, count, shape_.head_dim, keys);
  for (std::uint32_t p = 0; p < count; ++p) rows[p] += value_offset - key_offset;
  (f32 ? kernels_.pack_values_f32 : kernels_.pack_values_bf16)(rows, count, shape_.head_dim, values);
}

void attention::merge_segments(const task& of, const attention_buffers& buffers) {
  auto rows = of.tokens * group();
  auto state_floats = rows_state::floats(rows, padded_dim_);
  rows_state total{thread_scratch(state_floats), rows, padded_dim_};
  total.reset();
  for (auto s = of.first_segment; s < of.last_segment; ++s) {
    rows_state segment{partials_.data() + of.partial + (s - of.first_segment) * state_floats, rows,
                       padded_dim_};
    for (std::uint32_t r = 0; r < rows; ++r)
      if (of.position(r / group()) >= s * segment_positions)
        kernels_.softmax_merge(total.row(r), segment.row(r));
  }
  write_output(of, total, buffers);
}

void attention::write_output(const task& of, rows_state& state, const attention_buffers& buffers) const {
  for (std::uint32_t r = 0; r < state.rows; ++r) {
    auto* to = buffers.output + (of.job->first_row + of.first_token + r / group()) * buffers.output_stride
               + (std::size_t{of.kv_head} * group() + r % group()) * shape_.head_dim;
    const auto* from = state.outputs() + r * padded_dim_;
    // Adding zero makes -0 into +0, the one difference that masked positions could leave.
    for (std::uint32_t d = 0; d < shape_.head_dim; ++d) to[d] = from[d] / state.sums()[r] + 0.0F;
  }
}

} // namespace dualpath::kernels

// What the kernels are told of a batch besides its bytes: its rows, and how attention is cut into thread
// blocks. Pure.
#pragma once

#include "kernels/compute.hpp"
#include "kernels/cuda/launch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dualpath::kernels::cuda {

/// Rows that go through a layer together; bounds the memory for what lies between its kernels.
constexpr std::uint32_t rows_per_step = 1024;

/// Rows [first_row, first_row + row_count) of a batch and their attention tasks.
struct batch_step {
  std::uint32_t first_row = 0;
  std::uint32_t row_count = 0;
  std::uint32_t first_task = 0, task_count = 0;   ///< in batch_plan::tasks; rows count from first_row
  std::uint32_t first_merge = 0, merge_count = 0; ///< in batch_plan::merges
  std::uint32_t partial_rows = 0;                 ///< rows a partial state needs room for
  std::uint64_t partial_count = 0;
};

struct batch_plan {
  std::vector<row_info> rows; ///< entry by entry, in order of position
  std::vector<attention_task> tasks;
  std::vector<attention_task> merges;
  std::vector<batch_step> steps;
  std::vector<std::uint32_t> sampled_rows; ///< of the entries that want a token, in their order
};

batch_plan plan_batch(std::span<const batch_entry> entries, const head_shape& shape);

} // namespace dualpath::kernels::cuda

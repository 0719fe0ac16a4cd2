#include "kernels/cuda/batch_plan.hpp"

#include <algorithm>

namespace dualpath::kernels::cuda {
namespace {

/// Partial states beyond this many floats are not worth their memory; the result is the same bits either way.
constexpr std::uint64_t partial_floats_limit = std::uint64_t{64} << 20;

std::uint32_t segments_for(std::uint32_t positions) {
  return (positions + attention_segment - 1) / attention_segment;
}

class planner {
public:
  planner(batch_plan& plan, const head_shape& shape) : plan_{plan}, shape_{shape} {}

  /// Rows [first, end) of the batch, all of one entry.
  void add_run(batch_step& step, std::uint32_t first, std::uint32_t end) {
    auto tokens = end - first;
    if (tokens <= shape_.tokens_per_task() && add_split(step, first, tokens)) return;
    for (auto row = first; row < end; row += shape_.tokens_per_task()) {
      auto task = task_at(step, row, std::min(shape_.tokens_per_task(), end - row));
      task.last_segment = segments_for(task.position + task.tokens);
      plan_.tasks.push_back(task);
    }
  }

private:
  attention_task task_at(const batch_step& step, std::uint32_t row, std::uint32_t tokens) const {
    attention_task task;
    task.entry = plan_.rows[row].entry;
    task.row = row - step.first_row;
    task.position = plan_.rows[row].position;
    task.tokens = tokens;
    return task;
  }

  /// Decode has few rows and a long context: its segments are computed side by side, then joined.
  bool add_split(batch_step& step, std::uint32_t first, std::uint32_t tokens) {
    auto task = task_at(step, first, tokens);
    auto segments = segments_for(task.position + tokens);
    auto rows = std::max(step.partial_rows, tokens * shape_.heads_per_block());
    if (segments == 1
        || (step.partial_count + segments) * partial_floats(shape_, rows) > partial_floats_limit)
      return false;
    step.partial_rows = rows;
    task.partial = static_cast<std::int64_t>(step.partial_count);
    task.last_segment = segments;
    plan_.merges.push_back(task);
    for (std::uint32_t segment = 0; segment < segments; ++segment) {
      task.partial = static_cast<std::int64_t>(step.partial_count++);
      task.first_segment = segment;
      task.last_segment = segment + 1;
      plan_.tasks.push_back(task);
    }
    return true;
  }

  batch_plan& plan_;
  head_shape shape_;
};

void plan_step(batch_plan& plan, const head_shape& shape, std::uint32_t first_row, std::uint32_t end) {
  batch_step step;
  step.first_row = first_row;
  step.row_count = end - first_row;
  step.first_task = static_cast<std::uint32_t>(plan.tasks.size());
  step.first_merge = static_cast<std::uint32_t>(plan.merges.size());
  planner planned{plan, shape};
  for (auto row = first_row; row < end;) {
    auto next = row + 1;
    while (next < end && plan.rows[next].entry == plan.rows[row].entry) ++next;
    planned.add_run(step, row, next);
    row = next;
  }
  step.task_count = static_cast<std::uint32_t>(plan.tasks.size()) - step.first_task;
  step.merge_count = static_cast<std::uint32_t>(plan.merges.size()) - step.first_merge;
  plan.steps.push_back(step);
}

} // namespace

batch_plan plan_batch(std::span<const batch_entry> entries, const head_shape& shape) {
  batch_plan plan;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    for (std::uint32_t t = 0; t < entries[i].token_count; ++t)
      plan.rows.push_back({i, entries[i].first_position + t});
    if (entries[i].wants_token) plan.sampled_rows.push_back(static_cast<std::uint32_t>(plan.rows.size() - 1));
  }
  auto rows = static_cast<std::uint32_t>(plan.rows.size());
  for (std::uint32_t first = 0; first < rows; first += rows_per_step)
    plan_step(plan, shape, first, std::min(rows, first + rows_per_step));
  return plan;
}

} // namespace dualpath::kernels::cuda

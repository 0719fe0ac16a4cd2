// The forward pass on the CPU, synchronous: what cpu_device runs on its driver thread, and what tests look
// into. Every row of a batch is computed by itself in one fixed order, so nothing of it depends on the batch.
#pragma once

#include "core/result.hpp"
#include "kernels/compute.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/rope.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/model/model_weights.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dualpath::kernels {

class cpu_pass final : public forward_pass {
public:
  struct row {
    std::uint32_t entry = 0;
    std::uint32_t position = 0;
    core::token_id token = 0;
  };

  const std::vector<batch_entry>& entries() const { return entries_; }
  const std::vector<row>& rows() const { return rows_; }

private:
  friend class cpu_forward;
  std::vector<batch_entry> entries_;
  std::vector<row> rows_; ///< entry by entry, in order of position
  float_buffer hidden_;   ///< [rows][padded hidden]; made when layer 0 starts
  float_buffer angles_;   ///< [rows][head_dim]
  std::uint32_t next_layer_ = 0;
  std::optional<core::error> failure_; ///< what was wrong with the entries; told by the first operation
};

/// One row of logits per row asked for.
struct logit_rows {
  std::uint32_t vocabulary = 0;
  std::size_t stride = 0;
  float_buffer values;
  std::vector<std::uint32_t> rows; ///< rows of the pass

  std::span<const float> row(std::size_t i) const { return {values.data() + i * stride, vocabulary}; }
};

enum class logits_of { wanted, every_row };

class cpu_forward {
public:
  cpu_forward(std::shared_ptr<const model_weights> weights, kv_dtype type, std::uint32_t block_tokens,
              const kernel_table& kernels, thread_pool& pool);

  /// Copies the tokens; never fails, the first operation reports bad entries.
  std::unique_ptr<cpu_pass> begin(std::vector<batch_entry> entries) const;
  core::result<void> run_layers(cpu_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                                std::span<const kv_view> views);
  /// Fails before the last layer was computed, and where a logit is not finite.
  core::result<logit_rows> logits(const cpu_pass& pass, logits_of which);

private:
  /// Rows [first, first + count) of a pass, taken through a layer together.
  struct row_block {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  std::optional<core::error> check_views(const cpu_pass& pass, std::uint32_t first_layer,
                                         std::uint32_t layer_count, std::span<const kv_view> views) const;
  void embed(cpu_pass& pass);
  void reserve(std::uint32_t rows);
  void run_layer(cpu_pass& pass, std::uint32_t layer, row_block block, std::span<const kv_view> views);
  void rotate_and_store(const cpu_pass& pass, std::uint32_t layer, row_block block,
                        std::span<const kv_view> views);
  void attend(const cpu_pass& pass, std::uint32_t layer, row_block block, std::span<const kv_view> views);
  kv_rows rows_of(const kv_view& view, std::uint32_t layer) const;
  void store_row(std::byte* to, std::span<const float> values) const;
  void normalise(const float* from, const float_buffer& weight, float* to, std::uint32_t rows);
  /// C = A · matrix for `rows` rows.
  void project(const packed_matrix& matrix, const float* a, std::size_t a_stride, std::uint32_t rows,
               float* c, std::size_t c_stride);
  template <class Body>
  void for_rows(std::uint32_t rows, std::uint64_t cost_per_row, const Body& body);

  std::shared_ptr<const model_weights> weights_;
  kv_dtype type_;
  std::uint32_t block_tokens_;
  const kernel_table& kernels_;
  thread_pool& pool_;
  rope rope_;
  attention attention_;

  std::size_t hidden_stride_;
  std::size_t qkv_stride_;
  std::size_t heads_stride_;
  std::size_t gate_up_stride_;
  std::size_t mlp_stride_;
  std::uint32_t reserved_rows_ = 0;
  float_buffer normalised_, qkv_, heads_, gate_up_, mlp_, delta_;
};

} // namespace dualpath::kernels

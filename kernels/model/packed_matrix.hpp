// A weight matrix laid out for the CPU kernels: 32 output columns side by side, for one k after another, so
// that a product streams through memory once and fills whole vector registers whatever their width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dualpath::kernels {

/// Zeroed floats on a 64-byte boundary, on huge pages where the system grants them. Move-only.
class float_buffer {
public:
  float_buffer() = default;
  explicit float_buffer(std::size_t count);
  float_buffer(float_buffer&& other) noexcept;
  float_buffer& operator=(float_buffer&& other) noexcept;
  ~float_buffer();

  float* data() { return data_; }
  const float* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::span<float> span() { return {data_, count_}; }

private:
  float* data_ = nullptr;
  std::size_t count_ = 0;
};

struct packed_matrix {
  static constexpr std::uint32_t panel_columns = 32;

  std::uint32_t outputs = 0;
  std::uint32_t inputs = 0;
  float_buffer data; ///< [panels][inputs][panel_columns]; columns past `outputs` are zero
  float_buffer bias; ///< [panels * panel_columns], or empty

  packed_matrix() = default;
  packed_matrix(std::uint32_t outputs, std::uint32_t inputs, bool with_bias);
  std::uint32_t panels() const { return (outputs + panel_columns - 1) / panel_columns; }
  const float* panel(std::uint32_t index) const {
    return data.data() + std::size_t{index} * inputs * panel_columns;
  }
  /// Sets output column `output` to `weights` (one per input).
  void set_column(std::uint32_t output, std::span<const float> weights);
};

/// Rows of activations are this many floats apart: whole panels, and off the power-of-two strides on which
/// the rows of a tile would fall into the same cache sets.
constexpr std::uint32_t padded_width(std::uint32_t columns) {
  auto whole = (columns + packed_matrix::panel_columns - 1) / packed_matrix::panel_columns
               * packed_matrix::panel_columns;
  return whole % 512 == 0 ? whole + packed_matrix::panel_columns : whole;
}

} // namespace dualpath::kernels

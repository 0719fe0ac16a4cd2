#include "kernels/model/packed_matrix.hpp"

#include "core/page_memory.hpp"

#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace dualpath::kernels {

using core::huge_page_bytes;

float_buffer::float_buffer(std::size_t count) : count_{count} {
  if (count == 0) return;
  auto bytes = count * sizeof(float);
  auto alignment = bytes >= huge_page_bytes ? huge_page_bytes : std::size_t{64};
  data_ = static_cast<float*>(::operator new (bytes, std::align_val_t{alignment}));
  core::request_huge_pages(std::as_writable_bytes(std::span{data_, count}));
  std::memset(data_, 0, bytes);
}

float_buffer::float_buffer(float_buffer&& other) noexcept
    : data_{std::exchange(other.data_, nullptr)}, count_{std::exchange(other.count_, 0)} {}

float_buffer& float_buffer::operator=(float_buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(count_, other.count_);
  return *this;
}

float_buffer::~float_buffer() {
  auto alignment = count_ * sizeof(float) >= huge_page_bytes ? huge_page_bytes : std::size_t{64};
  if (data_) ::operator delete (data_, std::align_val_t{alignment});
}

packed_matrix::packed_matrix(std::uint32_t outputs, std::uint32_t inputs, bool with_bias)
    : outputs{outputs},
      inputs{inputs},
      data{std::size_t{panels()} * inputs * panel_columns},
      bias{with_bias ? std::size_t{panels()} * panel_columns : 0} {}

void packed_matrix::set_column(std::uint32_t output, std::span<const float> weights) {
  auto* to =
      data.data() + std::size_t{output / panel_columns} * inputs * panel_columns + output % panel_columns;
  for (std::size_t k = 0; k < weights.size(); ++k) to[k * panel_columns] = weights[k];
}

} // namespace dualpath::kernels

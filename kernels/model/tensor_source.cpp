#include "kernels/model/tensor_source.hpp"

#include <bit>
#include <cstring>

namespace dualpath::kernels {
namespace {

float from_f16(std::uint16_t bits) {
  auto sign = std::uint32_t{bits & 0x8000u} << 16;
  auto exponent = (bits >> 10) & 0x1fu;
  auto fraction = std::uint32_t{bits & 0x3ffu};
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  auto magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

} // namespace

void widen(const tensor_view& view, std::uint64_t first_element, std::span<float> out) {
  const auto* from = view.bytes.data() + first_element * size_bytes(view.type);
  if (view.type == tensor_type::f32) {
    std::memcpy(out.data(), from, out.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    out[i] =
        view.type == tensor_type::bf16 ? std::bit_cast<float>(std::uint32_t{bits} << 16) : from_f16(bits);
  }
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

} // namespace dualpath::kernels

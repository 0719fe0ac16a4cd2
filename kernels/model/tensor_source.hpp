// Where the tensors of a model come from: a checkpoint on disk or a seeded generator. Tensors are plain
// row-major arrays in one of the three types Hugging Face checkpoints use; readers widen them to float
// themselves.
#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dualpath::kernels {

enum class tensor_type : std::uint8_t { f32, bf16, f16 };

constexpr std::uint64_t size_bytes(tensor_type type) { return type == tensor_type::f32 ? 4 : 2; }
constexpr const char* to_string(tensor_type type) {
  switch (type) {
  case tensor_type::f32:
    return "F32";
  case tensor_type::bf16:
    return "BF16";
  case tensor_type::f16:
    return "F16";
  }
  return "unknown";
}

/// Row-major elements in little-endian order; not necessarily aligned.
struct tensor_view {
  tensor_type type = tensor_type::f32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes `out.size()` elements of `view`, starting at `first_element`, as floats; every one is represented
/// exactly.
void widen(const tensor_view& view, std::uint64_t first_element, std::span<float> out);

/// "[2, 3]"
std::string shape_text(std::span<const std::uint64_t> shape);

/// Thread-safe once constructed. Views live as long as the source.
class tensor_source {
public:
  virtual ~tensor_source() = default;
  /// Fails where the tensor is missing or of a type that cannot be read; the text names tensor and file.
  virtual core::result<tensor_view> find(std::string_view name) const = 0;
  /// What error texts call the source, e.g. the path of the file that holds the tensor.
  virtual std::string describe(std::string_view name) const = 0;
};

} // namespace dualpath::kernels

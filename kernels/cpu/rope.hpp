// Rotary position embedding: angles of every position, and the rotation of a head (rotate_half of Hugging
// Face: the pairs are i and i + head_dim / 2). Sines come from this file's own code, in double precision, so
// that KV bytes do not depend on the C library of a machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dualpath::kernels {

class rope {
public:
  rope(std::uint32_t head_dim, double theta);

  std::uint32_t half() const { return static_cast<std::uint32_t>(frequencies_.size()); }
  /// Writes cos of `half()` angles, then sin of them. Positions up to 2^20.
  void angles(std::uint32_t position, std::span<float> out) const;
  /// Rotates one head in place; `angles` as written by angles().
  static void rotate(float* head, std::span<const float> angles);

private:
  std::vector<float> frequencies_;
};

} // namespace dualpath::kernels

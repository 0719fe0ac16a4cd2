// One safetensors file, mapped into memory: 8 bytes of header length (little endian), a JSON header of name →
// {dtype, shape, data_offsets}, then the data. Everything is checked when the file is opened, so that no
// reader of a tensor can leave the mapping: lengths, offsets, overlaps, and that every offset range is as
// long as its shape says.
#pragma once

#include "kernels/model/tensor_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace dualpath::kernels {

class safetensors_file {
public:
  struct entry {
    std::string type; ///< as written: "F32", "BF16", "I64", ...
    std::vector<std::uint64_t> shape;
    std::uint64_t first_byte = 0; ///< from the start of the file
    std::uint64_t bytes = 0;
  };

  static core::result<std::shared_ptr<const safetensors_file>> open(const std::string& path);
  ~safetensors_file();
  safetensors_file(const safetensors_file&) = delete;
  safetensors_file& operator=(const safetensors_file&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, entry, std::less<>>& entries() const { return entries_; }
  /// The view lives as long as the file. Fails for tensors of other types than F32, BF16 and F16.
  core::result<tensor_view> view(const std::string& name, const entry& of) const;

private:
  safetensors_file() = default;

  std::string path_;
  std::span<const std::byte> mapping_;
  std::map<std::string, entry, std::less<>> entries_;
};

struct named_tensor {
  std::string name;
  tensor_view view;
};

/// Writes (or replaces) a file that holds `tensors` in the given order; the same input gives the same bytes.
core::result<void> write_safetensors(const std::string& path, std::span<const named_tensor> tensors);

} // namespace dualpath::kernels

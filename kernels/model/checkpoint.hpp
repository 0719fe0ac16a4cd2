// The weights of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json
// lists.
#pragma once

#include "kernels/model/safetensors.hpp"

#include <map>
#include <memory>
#include <string>

namespace dualpath::kernels {

class checkpoint final : public tensor_source {
public:
  /// Maps every file and checks every header.
  static core::result<std::shared_ptr<const checkpoint>> open(const std::string& model_dir);

  core::result<tensor_view> find(std::string_view name) const override;
  std::string describe(std::string_view name) const override;

private:
  std::string place_; ///< the only file, or the index
  std::map<std::string, std::shared_ptr<const safetensors_file>, std::less<>> tensors_;
};

} // namespace dualpath::kernels

#include "kernels/model/checkpoint.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

namespace dualpath::kernels {
namespace {

using nlohmann::json;
using file_map = std::map<std::string, std::shared_ptr<const safetensors_file>, std::less<>>;

core::error bad(const std::string& path, const std::string& what) {
  return {core::errc::invalid_argument, path + ": " + what};
}

core::result<file_map> open_shards(const std::string& model_dir, const std::string& index_path,
                                   std::ifstream& file) {
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  auto index = json::parse(text, nullptr, false);
  auto weight_map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || weight_map == index.end() || !weight_map->is_object())
    return bad(index_path, "holds no weight_map");
  file_map shards;
  file_map tensors;
  for (const auto& [name, value] : weight_map->items()) {
    auto shard_name = value.is_string() ? value.get<std::string>() : std::string{};
    if (shard_name.empty() || shard_name.find('/') != std::string::npos)
      return bad(index_path,
                 "weight_map names " + value.dump() + " for " + name + ", which is not a file of the folder");
    auto& shard = shards[shard_name];
    if (!shard) {
      auto opened = safetensors_file::open(model_dir + "/" + shard_name);
      if (!opened) return opened.error();
      shard = std::move(*opened);
    }
    if (!shard->entries().contains(name))
      return bad(shard->path(), "tensor " + name + " is missing though " + index_path + " places it there");
    tensors.emplace(name, shard);
  }
  return tensors;
}

} // namespace

core::result<std::shared_ptr<const checkpoint>> checkpoint::open(const std::string& model_dir) {
  auto opened = std::make_shared<checkpoint>();
  opened->place_ = model_dir + "/model.safetensors";
  auto index_path = opened->place_ + ".index.json";
  // A complete file goes before shards, as in transformers.
  if (std::ifstream index{index_path, std::ios::binary}; index && !std::ifstream{opened->place_}) {
    auto tensors = open_shards(model_dir, index_path, index);
    if (!tensors) return tensors.error();
    opened->place_ = index_path;
    opened->tensors_ = std::move(*tensors);
    return std::shared_ptr<const checkpoint>{std::move(opened)};
  }
  auto file = safetensors_file::open(opened->place_);
  if (!file) return file.error();
  for (const auto& [name, of] : (*file)->entries()) opened->tensors_.emplace(name, *file);
  return std::shared_ptr<const checkpoint>{std::move(opened)};
}

core::result<tensor_view> checkpoint::find(std::string_view name) const {
  auto it = tensors_.find(name);
  if (it == tensors_.end()) return bad(place_, "tensor " + std::string{name} + " is missing");
  return it->second->view(it->first, it->second->entries().find(name)->second);
}

std::string checkpoint::describe(std::string_view name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? place_ : it->second->path();
}

} // namespace dualpath::kernels

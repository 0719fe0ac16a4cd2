#include "kernels/model/safetensors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace dualpath::kernels {
namespace {

using nlohmann::json;
using entry = safetensors_file::entry;
using entry_map = std::map<std::string, entry, std::less<>>;

constexpr std::uint64_t length_bytes = 8;
/// The limit of the reference implementation.
constexpr std::uint64_t header_limit_bytes = 100'000'000;

std::uint64_t element_bytes(const std::string& type) {
  static const std::map<std::string, std::uint64_t> known{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};
  auto it = known.find(type);
  return it == known.end() ? 0 : it->second;
}

core::error bad(const std::string& path, const std::string& what) {
  return {core::errc::invalid_argument, path + ": " + what};
}

std::optional<std::uint64_t> unsigned_value(const json& value) {
  if (!value.is_number_unsigned()) return {};
  return value.get<std::uint64_t>();
}

/// Fills `out` from one header entry; the text says what is wrong with it, or nothing.
std::string read_entry(const json& value, std::uint64_t data_start, std::uint64_t file_bytes, entry& out) {
  if (!value.is_object()) return "is not an object";
  auto type = value.find("dtype");
  auto shape = value.find("shape");
  auto offsets = value.find("data_offsets");
  if (type == value.end() || !type->is_string()) return "has no dtype";
  if (shape == value.end() || !shape->is_array()) return "has no shape";
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2) return "has no data_offsets";
  out.type = type->get<std::string>();
  auto begin = unsigned_value((*offsets)[0]);
  auto end = unsigned_value((*offsets)[1]);
  if (!begin || !end || *begin > *end) return "has data_offsets " + offsets->dump() + ", which are no range";
  if (*end > file_bytes - data_start)
    return "ends at data byte " + std::to_string(*end) + " but the file holds only "
           + std::to_string(file_bytes - data_start) + " (truncated?)";
  out.first_byte = data_start + *begin;
  out.bytes = *end - *begin;
  auto width = element_bytes(out.type);
  // Types of later versions of the format: their sizes cannot be checked, and view() refuses them.
  std::uint64_t expected = width ? width : 1;
  for (const auto& dimension : *shape) {
    auto size = unsigned_value(dimension);
    if (!size) return "has shape " + shape->dump();
    out.shape.push_back(*size);
    if (__builtin_mul_overflow(expected, *size, &expected))
      return "has the impossible shape " + shape->dump();
  }
  if (width && expected != out.bytes)
    return "of type " + out.type + " and shape " + shape->dump() + " needs " + std::to_string(expected)
           + " bytes but has " + std::to_string(out.bytes);
  return {};
}

std::string find_overlap(const entry_map& entries) {
  std::vector<std::pair<std::string, const entry*>> sorted;
  for (const auto& [name, of] : entries)
    if (of.bytes) sorted.emplace_back(name, &of);
  std::ranges::sort(sorted, {}, [](const auto& pair) { return pair.second->first_byte; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1].second->first_byte + sorted[i - 1].second->bytes > sorted[i].second->first_byte)
      return "tensors " + sorted[i - 1].first + " and " + sorted[i].first + " overlap";
  return {};
}

core::result<std::span<const std::byte>> map_file(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return bad(path, std::string{"cannot be opened: "} + std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < static_cast<off_t>(length_bytes)) {
    ::close(fd);
    return bad(path, "too short to be a safetensors file");
  }
  auto size = static_cast<std::size_t>(info.st_size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  int failure = errno;
  ::close(fd);
  if (start == MAP_FAILED) return bad(path, std::string{"cannot be mapped: "} + std::strerror(failure));
  return std::span{static_cast<const std::byte*>(start), size};
}

core::result<entry_map> read_header(const std::string& path, std::span<const std::byte> file) {
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, file.data(), length_bytes);
  if (header_bytes > header_limit_bytes || header_bytes > file.size() - length_bytes)
    return bad(path, "header of " + std::to_string(header_bytes) + " bytes in a file of "
                         + std::to_string(file.size()) + " (truncated, or not safetensors)");
  const auto* text = reinterpret_cast<const char*>(file.data()) + length_bytes;
  auto header = json::parse(text, text + header_bytes, nullptr, false);
  if (!header.is_object()) return bad(path, "the header is not a JSON object");
  entry_map entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    entry of;
    if (auto wrong = read_entry(value, length_bytes + header_bytes, file.size(), of); !wrong.empty())
      return bad(path, "tensor " + name + " " + wrong);
    entries.emplace(name, std::move(of));
  }
  if (auto overlap = find_overlap(entries); !overlap.empty()) return bad(path, overlap);
  return entries;
}

} // namespace

core::result<std::shared_ptr<const safetensors_file>> safetensors_file::open(const std::string& path) {
  auto mapping = map_file(path);
  if (!mapping) return mapping.error();
  std::shared_ptr<safetensors_file> file{new safetensors_file};
  file->path_ = path;
  file->mapping_ = *mapping;
  auto entries = read_header(path, *mapping);
  if (!entries) return entries.error();
  file->entries_ = std::move(*entries);
  return std::shared_ptr<const safetensors_file>{std::move(file)};
}

safetensors_file::~safetensors_file() {
  if (mapping_.data()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

core::result<tensor_view> safetensors_file::view(const std::string& name, const entry& of) const {
  tensor_view view;
  view.shape = of.shape;
  view.bytes = mapping_.subspan(of.first_byte, of.bytes);
  for (auto type : {tensor_type::f32, tensor_type::bf16, tensor_type::f16}) {
    if (of.type != to_string(type)) continue;
    view.type = type;
    return view;
  }
  return core::error{core::errc::unsupported, path_ + ": tensor " + name + " is of type " + of.type
                                                  + "; only F32, BF16 and F16 can be read"};
}

core::result<void> write_safetensors(const std::string& path, std::span<const named_tensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (const auto& [name, view] : tensors) {
    header[name] = {{"dtype", to_string(view.type)},
                    {"shape", view.shape},
                    {"data_offsets", {at, at + view.bytes.size()}}};
    at += view.bytes.size();
  }
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream file{path, std::ios::binary | std::ios::trunc};
  auto put = [&](const void* data, std::uint64_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  std::uint64_t header_bytes = text.size();
  put(&header_bytes, sizeof header_bytes);
  put(text.data(), text.size());
  for (const auto& tensor : tensors) put(tensor.view.bytes.data(), tensor.view.bytes.size());
  file.close();
  if (!file) return core::error{core::errc::io, path + ": cannot be written: " + std::strerror(errno)};
  return {};
}

} // namespace dualpath::kernels

#include "storage/block_paths.hpp"

#include "storage/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace dualpath::storage {
namespace {

constexpr std::string_view suffix = ".kv";
constexpr std::size_t key_digits = 32;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool is_hex(std::string_view name, std::size_t digits) {
  return name.size() == digits && std::all_of(name.begin(), name.end(), [](char c) { return digit(c) >= 0; });
}

/// Calls `visit(name)` for every entry; returns 0 or errno. A folder that is gone has no entries.
template <class Visit>
int for_each_entry(int parent, const char* name, Visit visit) {
  descriptor fd{openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
  std::unique_ptr<DIR, int (*)(DIR*)> entries{fdopendir(fd.get()), closedir};
  if (!entries) return errno;
  int number = fd.release(); // closedir closes it
  for (;;) {
    errno = 0;
    auto* entry = readdir(entries.get());
    if (!entry) return errno;
    if (int failure = visit(number, std::string_view{entry->d_name})) return failure;
  }
}

} // namespace

std::string model_folder(const core::model_fingerprint& model, const core::block_layout& layout) {
  return core::to_hex(core::block_key{model.bytes}) + "-" + std::to_string(layout.layers) + "x"
         + std::to_string(layout.block_tokens) + "x" + std::to_string(layout.token_bytes);
}

path_text block_path(const core::block_key& key) {
  auto hex = core::to_hex(key);
  path_text path{hex[0], hex[1], '/', hex[2], '/'};
  auto end = std::copy(hex.begin(), hex.end(), path.begin() + 5);
  std::copy(suffix.begin(), suffix.end(), end);
  return path;
}

path_text shard_path(const core::block_key& key, int level) {
  auto path = block_path(key);
  path[level == 1 ? 2 : 4] = '\0';
  return path;
}

std::optional<core::block_key> key_of_file(std::string_view name) {
  if (!name.ends_with(suffix)) return {};
  name.remove_suffix(suffix.size());
  if (!is_hex(name, key_digits)) return {};
  core::block_key key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i)
    key.bytes[i] = static_cast<std::uint8_t>(digit(name[2 * i]) * 16 + digit(name[2 * i + 1]));
  return key;
}

int walk_blocks(int folder, const std::function<void(const core::block_key&, std::uint64_t)>& visit) {
  return for_each_entry(folder, ".", [&](int top, std::string_view first) {
    if (!is_hex(first, 2)) return 0;
    return for_each_entry(top, first.data(), [&](int middle, std::string_view second) {
      if (!is_hex(second, 1)) return 0;
      return for_each_entry(middle, second.data(), [&](int bottom, std::string_view name) {
        auto key = key_of_file(name);
        if (!key || name.substr(0, 2) != first || name.substr(2, 1) != second) return 0;
        struct stat file;
        if (fstatat(bottom, name.data(), &file, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
        if (S_ISREG(file.st_mode)) visit(*key, static_cast<std::uint64_t>(file.st_size));
        return 0;
      });
    });
  });
}

} // namespace dualpath::storage

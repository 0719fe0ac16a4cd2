#include "storage/store_folder.hpp"

#include "storage/block_paths.hpp"
#include "storage/block_store.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace dualpath::storage {
namespace {

std::string file_system_of(int fd) {
  struct statfs about;
  if (fstatfs(fd, &about) != 0) return "unknown file system";
  switch (static_cast<unsigned long>(about.f_type)) {
  case EXT4_SUPER_MAGIC:
    return "ext4";
  case XFS_SUPER_MAGIC:
    return "xfs";
  case TMPFS_MAGIC:
    return "tmpfs";
  case OVERLAYFS_SUPER_MAGIC:
    return "overlay";
  case NFS_SUPER_MAGIC:
    return "nfs";
  case BTRFS_SUPER_MAGIC:
    return "btrfs";
  case 0x0bd0'0bd0:
    return "lustre";
  case 0x0cff'ee00:
    return "ceph";
  case FUSE_SUPER_MAGIC:
    return "fuse";
  default:
    return "file system " + std::to_string(about.f_type);
  }
}

core::error cannot_create(const std::string& path, int code) {
  return {core::errc::io, "cannot create the block store folder " + path + " (" + std::strerror(code)
                              + "); create it or choose a directory this user can write to"};
}

core::result<void> make_folder(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure && failure != std::errc::file_exists && failure != std::errc::not_a_directory)
    return cannot_create(path.string(), failure.value());
  struct stat file;
  if (stat(path.c_str(), &file) != 0) {
    if (errno == ENOTDIR)
      return core::error{core::errc::invalid_argument, "a part of the block store path " + path.string()
                                                           + " is a file; give the path of a directory"};
    return cannot_create(path.string(), errno);
  }
  if (!S_ISDIR(file.st_mode))
    return core::error{core::errc::invalid_argument,
                       "the block store path " + path.string() + " is a file; give the path of a directory"};
  return {};
}

/// Whether an aligned page can be written and read back past the page cache. A file system may accept the
/// flag and then refuse the size, so only a try tells.
bool probe_direct(int folder, temp_files& temps) {
  auto path = temps.next();
  descriptor file{openat(folder, path.data(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0666)};
  if (!file) return false;
  std::unique_ptr<void, void (*)(void*)> page{std::aligned_alloc(buffer_alignment, buffer_alignment),
                                              std::free};
  std::memset(page.get(), 0, buffer_alignment);
  constexpr auto whole = static_cast<ssize_t>(buffer_alignment);
  bool works = pwrite(file.get(), page.get(), buffer_alignment, 0) == whole
               && pread(file.get(), page.get(), buffer_alignment, 0) == whole;
  unlinkat(folder, path.data(), 0);
  return works;
}

} // namespace

core::result<store_folder> open_store_folder(const std::filesystem::path& directory,
                                             const core::model_fingerprint& model,
                                             const core::block_layout& layout, bool want_direct) {
  if (directory.empty())
    return core::error{core::errc::invalid_argument,
                       "the block store path is empty; give the path of a directory"};
  auto path = directory / model_folder(model, layout);
  for (auto& folder : std::array{directory, path, path / temp_files::folder_name})
    if (auto made = make_folder(folder); !made) return made.error();
  descriptor fd{open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd)
    return core::error{core::errc::io, "cannot open the block store folder " + path.string() + " ("
                                           + std::strerror(errno) + "); give this user access to it"};
  auto temps = temp_files::claim(fd.get(), path.string());
  if (!temps) return temps.error();
  bool direct = want_direct && probe_direct(fd.get(), *temps);
  auto kind = file_system_of(fd.get());
  return store_folder{.path = path.string(),
                      .file_system = std::move(kind),
                      .fd = std::move(fd),
                      .temps = std::move(*temps),
                      .direct = direct};
}

} // namespace dualpath::storage

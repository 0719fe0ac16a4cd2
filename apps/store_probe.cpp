#include "apps/store_probe.hpp"

#include "storage/descriptor.hpp"
#include "storage/store_spec.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/statfs.h>
#include <unistd.h>

namespace dualpath::apps {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t page_bytes = 4096;

std::string file_system_name(const fs::path& folder) {
  struct statfs about {};
  if (::statfs(folder.c_str(), &about) != 0) return "unknown file system";
  switch (static_cast<unsigned long>(about.f_type)) {
  case 0xEF53:
    return "ext4";
  case 0x58465342:
    return "xfs";
  case 0x9123683E:
    return "btrfs";
  case 0x01021994:
    return "tmpfs";
  case 0x6969:
    return "nfs";
  case 0x794C7630:
    return "overlayfs";
  case 0x65735546:
    return "fuse";
  case 0x0BD00BD0:
    return "lustre";
  case 0x2FC12FC1:
    return "zfs";
  }
  char number[32];
  std::snprintf(number, sizeof number, "file system %#lx", static_cast<unsigned long>(about.f_type));
  return number;
}

/// 0, or why a page cannot be written and read back.
int try_page(const std::string& path, int more_flags) {
  storage::descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | more_flags, 0600)};
  if (!file) return errno;
  std::unique_ptr<void, void (*)(void*)> page{std::aligned_alloc(page_bytes, page_bytes), std::free};
  std::memset(page.get(), 0, page_bytes);
  auto done = ::pwrite(file.get(), page.get(), page_bytes, 0) == static_cast<ssize_t>(page_bytes)
              && ::pread(file.get(), page.get(), page_bytes, 0) == static_cast<ssize_t>(page_bytes);
  auto failure = done ? 0 : errno != 0 ? errno : EIO;
  ::unlink(path.c_str());
  return failure;
}

/// The folder, or the one in which it would be made.
fs::path existing(fs::path path) {
  std::error_code ignored;
  for (path = fs::absolute(path, ignored); !fs::exists(path, ignored) && path.has_relative_path();)
    path = path.parent_path();
  return path;
}

} // namespace

store_facts probe_store(const std::string& where) {
  store_facts facts;
  facts.path = where;
  auto spec = storage::parse_store_spec(where);
  if (!spec) {
    facts.error = spec.error().text;
    return facts;
  }
  if (spec->what == storage::store_spec::kind::rados) {
    facts.file_system = "pool " + spec->pool + " of a Ceph cluster";
    facts.direct_io = true;
    facts.free_bytes = no_limit;
    if (::access(spec->path.c_str(), R_OK) != 0)
      facts.error = "cannot read " + spec->path.string() + ": " + std::strerror(errno);
    return facts;
  }
  auto folder = existing(spec->path);
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    facts.error = folder.string() + " is no folder";
    return facts;
  }
  auto file = (folder / (".dualpath-doctor-" + std::to_string(::getpid()))).string();
  if (auto failure = try_page(file, 0); failure != 0) {
    facts.error = "cannot write to " + folder.string() + ": " + std::strerror(failure);
    return facts;
  }
  facts.direct_io = try_page(file, O_DIRECT) == 0;
  facts.file_system = file_system_name(folder);
  facts.free_bytes = fs::space(folder, failed).available;
  return facts;
}

} // namespace dualpath::apps

#include "storage/temp_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

namespace dualpath::storage {
namespace {

constexpr std::string_view lock_suffix = ".lock";
constexpr std::size_t id_digits = 16;
constexpr std::int64_t leftover_age_s = 3600;

std::string random_id() {
  std::uint64_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  } // interrupted at boot at most
  char text[id_digits + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string temp_path(const std::string& name) { return std::string{temp_files::folder_name} + "/" + name; }

std::vector<std::string> names_in(int folder, const char* name) {
  std::vector<std::string> names;
  descriptor fd{openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) return names;
  std::unique_ptr<DIR, int (*)(DIR*)> entries{fdopendir(fd.get()), closedir};
  if (!entries) return names;
  fd.release();
  while (auto* entry = readdir(entries.get()))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return names;
}

enum class owner { alive, dead, unknown };

/// Asks the lock of an owner; the lock of a dead one is now held by `held`.
owner ask(int folder, const std::string& lock_name, std::vector<descriptor>& held) {
  descriptor lock{openat(folder, temp_path(lock_name).c_str(), O_RDWR | O_CLOEXEC)};
  if (!lock) return owner::unknown;
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? owner::alive : owner::unknown;
  held.push_back(std::move(lock));
  return owner::dead;
}

} // namespace

core::result<temp_files> temp_files::claim(int folder, const std::string& shown) {
  constexpr int attempts =
      8; // another store may take a fresh lock for a dead one's, just before it is locked
  for (int attempt = 0; attempt < attempts; ++attempt) {
    auto id = random_id();
    auto path = temp_path(id + std::string{lock_suffix});
    descriptor lock{openat(folder, path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (!lock && errno == EEXIST) continue;
    if (!lock)
      return core::error{core::errc::io,
                         "cannot write in the block store folder " + shown + " (" + std::strerror(errno)
                             + "); give this user write access to it or choose another directory"};
    // Without locks on this file system the age of the files decides; see remove_leftovers().
    (void)flock(lock.get(), LOCK_EX);
    struct stat file;
    if (fstat(lock.get(), &file) == 0 && file.st_nlink == 0) continue;
    temp_files claimed{folder, std::move(id), std::move(lock)};
    claimed.remove_leftovers();
    return claimed;
  }
  return core::error{core::errc::io, "cannot claim a name for temporary files in " + shown
                                         + "; check whether another program empties that folder"};
}

temp_files::~temp_files() {
  if (lock_) unlinkat(folder_, temp_path(id_ + std::string{lock_suffix}).c_str(), 0);
}

void temp_files::remove_leftovers() const {
  auto names = names_in(folder_, folder_name);
  std::vector<descriptor> held;
  std::map<std::string, owner, std::less<>> owners;
  owners[id_] = owner::alive;
  for (auto& name : names)
    if (name.ends_with(lock_suffix) && !name.starts_with(id_))
      owners[name.substr(0, name.size() - lock_suffix.size())] = ask(folder_, name, held);

  struct stat own;
  // The file system's own clock: it need not agree with this machine's.
  auto now_s = fstat(lock_.get(), &own) == 0 ? own.st_mtim.tv_sec : 0;
  auto old = [&](const std::string& path) {
    struct stat file;
    return fstatat(folder_, path.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0
           && file.st_mtim.tv_sec + leftover_age_s < now_s;
  };
  auto remove = [&](const std::string& name) {
    auto known = owners.find(std::string_view{name}.substr(0, std::min(name.size(), id_digits)));
    auto state = known == owners.end() ? owner::unknown : known->second;
    auto path = temp_path(name);
    if (state == owner::dead || (state == owner::unknown && old(path))) unlinkat(folder_, path.c_str(), 0);
  };
  // Locks last: were this process to end in between, the rest would still have a dead owner.
  for (auto& name : names)
    if (!name.ends_with(lock_suffix)) remove(name);
  for (auto& name : names)
    if (name.ends_with(lock_suffix)) remove(name);
}

path_text temp_files::next() {
  path_text path{};
  std::snprintf(path.data(), path.size(), "%s/%s-%llu", folder_name, id_.c_str(),
                static_cast<unsigned long long>(count_->fetch_add(1)));
  return path;
}

} // namespace dualpath::storage

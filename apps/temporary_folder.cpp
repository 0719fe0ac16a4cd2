#include "apps/temporary_folder.hpp"

#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace dualpath::apps {

namespace {

namespace fs = std::filesystem;

std::mutex mutex;
std::set<fs::path> present;

} // namespace

core::result<temporary_folder> temporary_folder::make(std::string_view name, fs::path parent) {
  std::error_code failed;
  if (parent.empty()) parent = fs::temp_directory_path(failed);
  auto pattern = (parent / (std::string{name} + "-XXXXXX")).string();
  if (failed || ::mkdtemp(pattern.data()) == nullptr)
    return core::error{core::errc::io, "cannot make a temporary folder at '" + pattern + "'"};
  return temporary_folder{pattern};
}

temporary_folder::temporary_folder(fs::path path) : path_{std::move(path)} {
  std::lock_guard lock{mutex};
  present.insert(path_);
}

temporary_folder::temporary_folder(temporary_folder&& other) noexcept
    : path_{std::exchange(other.path_, {})} {}

temporary_folder::~temporary_folder() {
  if (path_.empty()) return;
  std::lock_guard lock{mutex};
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  present.erase(path_);
}

void temporary_folder::remove_all() {
  constexpr int most_tries = 100;
  std::lock_guard lock{mutex};
  for (const auto& path : present) {
    // A file that appears meanwhile keeps its folder from going.
    for (int tries = 0; tries < most_tries; ++tries) {
      std::error_code failed;
      fs::remove_all(path, failed);
      if (!failed) break;
    }
  }
}

} // namespace dualpath::apps

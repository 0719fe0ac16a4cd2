// A folder that is gone when the program is, also when it ends in a hurry.
#pragma once

#include "core/result.hpp"

#include <filesystem>
#include <string_view>

namespace dualpath::apps {

class temporary_folder {
public:
  /// Makes NAME-XXXXXX in `parent`; without one, in the system's folder for temporary files. Errors: io
  /// (names the path).
  static core::result<temporary_folder> make(std::string_view name, std::filesystem::path parent = {});
  temporary_folder(temporary_folder&& other) noexcept;
  temporary_folder& operator=(temporary_folder&&) = delete;
  /// Removes it and what it holds.
  ~temporary_folder();

  const std::filesystem::path& path() const { return path_; }

  /// Removes all there are, while others may still be writing to them: for a process that ends right after.
  /// From any thread.
  static void remove_all();

private:
  explicit temporary_folder(std::filesystem::path path);
  std::filesystem::path path_; ///< empty: moved from
};

} // namespace dualpath::apps

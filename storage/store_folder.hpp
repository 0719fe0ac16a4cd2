// The folder of one model and layout on disk, opened, claimed and probed.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "storage/descriptor.hpp"
#include "storage/temp_files.hpp"

#include <filesystem>
#include <string>

namespace dualpath::storage {

struct store_folder {
  std::string path;
  std::string file_system; ///< its kind, for people
  descriptor fd;
  temp_files temps;
  bool direct = false; ///< files can be opened with O_DIRECT
};

/// Creates what is missing. With `want_direct`, tries O_DIRECT on a file of its own. Errors name the path and
/// what to do: invalid_argument (not a directory), io (cannot be created, not writable).
core::result<store_folder> open_store_folder(const std::filesystem::path& directory,
                                             const core::model_fingerprint& model,
                                             const core::block_layout& layout, bool want_direct);

} // namespace dualpath::storage

// Where a block lies in the directory of a file store:
//
//   <directory>/<model>-<layers>x<tokens>x<bytes>/ab/c/abc….kv
//
// Every model and layout has its own folder, so that they share a directory without ever seeing each other.
// In it, 256 folders of 16 spread the blocks: ten million of them are 2441 to a folder, which every file
// system handles well, while a store of a few thousand is not mostly folders. Paths of blocks are relative to
// the model's folder.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dualpath::storage {

/// Zero-terminated; small enough to live in a coroutine.
using path_text = std::array<char, 64>;

/// The folders that the blocks of a model are spread over.
inline constexpr std::uint64_t block_folders = 256 * 16;

std::string model_folder(const core::model_fingerprint& model, const core::block_layout& layout);

path_text block_path(const core::block_key& key);
/// The folder `level` (1 or 2) steps down towards a block.
path_text shard_path(const core::block_key& key, int level);
/// The key in the name of a block's file, if it is one.
std::optional<core::block_key> key_of_file(std::string_view name);

/// Visits every file of the model folder open as `folder` that has the name and place of a block. Returns 0
/// or errno; folders and files that vanish meanwhile are not errors.
int walk_blocks(int folder,
                const std::function<void(const core::block_key&, std::uint64_t file_bytes)>& visit);

} // namespace dualpath::storage

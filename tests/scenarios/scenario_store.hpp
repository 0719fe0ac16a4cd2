// The block store of a scenario as a folder on disk: where it is, what lies in it, and how it is damaged.
#pragma once

#include "scenario.hpp"
#include "storage/block_store.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace dualpath::scenarios {

/// A folder that is gone afterwards, on a file system of its own where a size is given.
class scenario_store {
public:
  /// Errors: unsupported, where the file system cannot be mounted; io.
  static core::result<scenario_store> open(const std::string& disk);
  scenario_store(scenario_store&& other) noexcept;
  scenario_store& operator=(scenario_store&&) = delete;
  ~scenario_store();

  const std::filesystem::path& path() const { return path_; }
  /// All files of blocks in it, of whatever model, in order of their names.
  std::vector<std::filesystem::path> block_files() const;

private:
  explicit scenario_store(std::filesystem::path path) : path_{std::move(path)} {}
  std::filesystem::path path_;
  bool mounted_ = false;
};

/// A file before it was damaged.
struct damaged_file {
  std::filesystem::path path;
  std::vector<std::byte> before;
};

/// Damages files of the blocks named, drawn from `seed`. Errors: invalid_argument, where there are too few.
core::result<std::vector<damaged_file>> damage_blocks(const scenario_store& store,
                                                      const std::vector<storage::block_name>& names,
                                                      const store_damage& damage, std::uint64_t seed);
std::vector<std::byte> read_file(const std::filesystem::path& path);

} // namespace dualpath::scenarios

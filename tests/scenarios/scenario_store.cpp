#include "scenario_store.hpp"

#include "core/units.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include <sys/mount.h>

namespace dualpath::scenarios {

namespace fs = std::filesystem;

core::result<scenario_store> scenario_store::open(const std::string& disk) {
  auto pattern = (fs::temp_directory_path() / "dualpath-scenario-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return core::error{core::errc::io, "cannot make the folder '" + pattern + "'"};
  scenario_store store{pattern};
  if (disk.empty()) return store;
  auto bytes = core::parse_bytes(disk);
  if (!bytes) return bytes.error();
  auto size = "size=" + std::to_string(*bytes);
  if (::mount("dualpath-scenario", pattern.c_str(), "tmpfs", 0, size.c_str()) != 0)
    return core::error{core::errc::unsupported,
                       "a file system of " + disk + " cannot be mounted here: " + std::strerror(errno)};
  store.mounted_ = true;
  return store;
}

scenario_store::scenario_store(scenario_store&& other) noexcept
    : path_{std::exchange(other.path_, {})}, mounted_{std::exchange(other.mounted_, false)} {}

scenario_store::~scenario_store() {
  if (path_.empty()) return;
  if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<fs::path> scenario_store::block_files() const {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (auto& entry : fs::recursive_directory_iterator{path_, ignored})
    if (entry.is_regular_file() && entry.path().extension() == ".kv") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::byte> read_file(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  std::vector<char> bytes{std::istreambuf_iterator<char>{in}, {}};
  std::vector<std::byte> out(bytes.size());
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

namespace {

void damage_file(const damaged_file& file, const store_damage& damage, std::mt19937_64& random) {
  auto size = file.before.size();
  if (damage.how == "delete") {
    fs::remove(file.path);
  } else if (damage.how == "truncate") {
    fs::resize_file(file.path, random() % size);
  } else {
    // Behind the header page lies the payload.
    auto offset = 4096 + random() % (size - 4096);
    auto flipped = file.before[offset] ^ std::byte{static_cast<unsigned char>(1u << (random() % 8))};
    std::fstream out{file.path, std::ios::binary | std::ios::in | std::ios::out};
    out.seekp(static_cast<std::streamoff>(offset));
    out.put(static_cast<char>(flipped));
  }
}

} // namespace

core::result<std::vector<damaged_file>> damage_blocks(const scenario_store& store,
                                                      const std::vector<storage::block_name>& names,
                                                      const store_damage& damage, std::uint64_t seed) {
  std::vector<fs::path> candidates;
  for (auto& file : store.block_files()) {
    auto stem = file.stem().string();
    auto found = std::find_if(names.begin(), names.end(),
                              [&](auto& name) { return stem.ends_with(core::to_hex(name.key)); });
    if (found != names.end() && found->depth >= damage.depth_from && found->depth < damage.depth_below)
      candidates.push_back(file);
  }
  if (candidates.size() < damage.blocks)
    return core::error{core::errc::invalid_argument, "the store has only " + std::to_string(candidates.size())
                                                         + " blocks of the depth to be damaged"};
  std::mt19937_64 random{seed};
  std::shuffle(candidates.begin(), candidates.end(), random);
  std::vector<damaged_file> files;
  for (std::uint32_t i = 0; i < damage.blocks; ++i) {
    files.push_back({candidates[i], read_file(candidates[i])});
    damage_file(files.back(), damage, random);
  }
  return files;
}

} // namespace dualpath::scenarios

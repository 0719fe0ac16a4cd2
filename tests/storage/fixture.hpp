// What the tests of the block stores share: aligned buffers, folders that vanish, seeds, and completions to
// wait for.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

namespace dualpath::storage::testing {

/// DUALPATH_SEED when set, else a new one; show it with INFO.
inline std::uint64_t seed() {
  if (const char* given = std::getenv("DUALPATH_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

/// A buffer as a registered pool would give it: aligned and padded.
class buffer {
public:
  explicit buffer(std::uint64_t payload_bytes)
      : size_{padded_bytes(payload_bytes)},
        memory_{static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, size_)), std::free} {
    std::memset(memory_.get(), 0, size_);
  }
  std::span<std::byte> span() { return {memory_.get(), size_}; }
  std::span<const std::byte> span() const { return {memory_.get(), size_}; }
  friend bool operator==(const buffer& a, const buffer& b) {
    return std::equal(a.span().begin(), a.span().end(), b.span().begin(), b.span().end());
  }

private:
  std::uint64_t size_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

/// Bytes that follow from the number alone.
inline buffer content(std::uint64_t number, std::uint64_t payload_bytes) {
  buffer filled{payload_bytes};
  std::mt19937_64 random{number};
  auto bytes = filled.span();
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    auto word = random();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return filled;
}

inline core::model_fingerprint model(std::uint8_t number) {
  core::model_fingerprint print;
  print.bytes.fill(number);
  return print;
}

/// The names of `count` blocks of one prompt.
inline std::vector<block_name> chain(std::uint32_t prompt, std::uint32_t count,
                                     const core::model_fingerprint& of = model(1)) {
  std::vector<block_name> names;
  auto parent = core::root_key(of);
  for (std::uint32_t depth = 0; depth < count; ++depth) {
    core::token_id tokens[] = {prompt, depth};
    names.push_back({.key = core::child_key(parent, tokens), .parent = parent, .depth = depth});
    parent = names.back().key;
  }
  return names;
}

class temp_folder {
public:
  explicit temp_folder(const std::filesystem::path& where = std::filesystem::temp_directory_path()) {
    auto pattern = (where / "dualpath-storage-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error{"no temporary folder " + pattern};
    path_ = pattern;
  }
  temp_folder(const temp_folder&) = delete;
  ~temp_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// Every regular file under a folder.
inline std::vector<std::filesystem::path> files_under(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (auto& entry : std::filesystem::recursive_directory_iterator{folder})
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

inline std::vector<std::filesystem::path> blocks_under(const std::filesystem::path& folder) {
  auto files = files_under(folder);
  std::erase_if(files, [](auto& file) { return file.extension() != ".kv"; });
  return files;
}

/// Completions, by the number of the operation.
class outcomes {
public:
  block_store::done at(std::size_t number) {
    std::lock_guard lock{mutex_};
    if (calls_.size() <= number)
      calls_.resize(number + 1), codes_.resize(number + 1), texts_.resize(number + 1);
    return [this, number](core::result<void> result) {
      std::lock_guard held{mutex_};
      ++calls_[number];
      ++total_;
      codes_[number] = result ? "ok" : core::to_string(result.error().code);
      if (!result) texts_[number] = result.error().text;
      wake_.notify_all();
    };
  }
  void wait(std::size_t total) {
    std::unique_lock lock{mutex_};
    wake_.wait(lock, [&] { return total_ >= total; });
  }
  std::string code(std::size_t number) const {
    std::lock_guard lock{mutex_};
    return codes_[number];
  }
  std::string text(std::size_t number) const {
    std::lock_guard lock{mutex_};
    return texts_[number];
  }
  std::vector<int> calls() const {
    std::lock_guard lock{mutex_};
    return calls_;
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::size_t total_ = 0;
  std::vector<int> calls_;
  std::vector<std::string> codes_, texts_;
};

// One operation, waited for: "ok" or the name of its error.
inline std::string read(block_store& store, const core::block_key& key, buffer& into) {
  outcomes all;
  store.read(key, into.span(), all.at(0));
  all.wait(1);
  return all.code(0);
}
inline std::string write(block_store& store, const block_name& name, const buffer& from) {
  outcomes all;
  store.write(name, from.span(), all.at(0));
  all.wait(1);
  return all.code(0);
}
inline std::string remove(block_store& store, const core::block_key& key) {
  outcomes all;
  store.remove(key, all.at(0));
  all.wait(1);
  return all.code(0);
}
inline std::vector<block_name> scan(block_store& store) {
  std::vector<block_name> names;
  auto done = store.scan([&](const block_name& name) { names.push_back(name); });
  INFO((done ? "" : done.error().text));
  REQUIRE(done);
  std::sort(names.begin(), names.end(), [](auto& a, auto& b) { return a.key < b.key; });
  return names;
}
inline std::vector<block_name> sorted(std::vector<block_name> names) {
  std::sort(names.begin(), names.end(), [](auto& a, auto& b) { return a.key < b.key; });
  return names;
}

} // namespace dualpath::storage::testing

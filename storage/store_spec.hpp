// Where blocks are stored, as a user writes it: file:DIR, rados:CONF/POOL, or a plain folder.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace dualpath::storage {

struct store_spec {
  enum class kind : std::uint8_t { files, rados };
  kind what = kind::files;
  std::filesystem::path path{}; ///< the folder, or ceph.conf
  std::string pool{};           ///< of rados
  friend bool operator==(const store_spec&, const store_spec&) = default;
};

/// Errors: invalid_argument (names what is missing or unknown).
core::result<store_spec> parse_store_spec(std::string_view text);

struct store_request {
  core::model_fingerprint model{};
  core::block_layout layout{};
  unsigned queue_depth = 64;
  std::uint64_t capacity_bytes = 0; ///< 0: no limit
};

/// Errors: those of the stores; unsupported (rados: where this build has no librados).
core::result<std::unique_ptr<block_store>> open_store(const store_spec& where, const store_request& request);

} // namespace dualpath::storage

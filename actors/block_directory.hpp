// Which blocks the cluster's store holds: the trie of all prefixes behind a message interface. A prefix that
// was looked up is pinned for its request until the request has read it.
#pragma once

#include "core/usage_gauge.hpp"
#include "proto/interfaces.hpp"
#include "storage/block_directory.hpp"

#include <map>
#include <memory>
#include <vector>

namespace dualpath::actors {

struct block_directory_state {
  static inline const char* name = "block_directory";
  storage::block_directory trie;
  std::map<core::request_id, core::shared_keys> pinned; ///< the last block of the prefix found
  core::usage_gauge::share in_use;

  void unpin(core::request_id request);
};

/// `stored` holds what the store had at start; `usage` may be null.
proto::directory_actor::behavior_type
block_directory(proto::directory_actor::stateful_pointer<block_directory_state> self,
                std::shared_ptr<const std::vector<storage::block_name>> stored, core::usage_gauge* usage);

} // namespace dualpath::actors

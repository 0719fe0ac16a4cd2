// What the request scheduler knows when it chooses engines (spec §7): the load report of each engine that
// fetches, and the requests that wait. Lengths are in tokens.
#pragma once

#include "core/ids.hpp"

#include <cstdint>

namespace dualpath::core {

struct engine_load {
  engine_id engine;
  std::uint64_t unfinished_requests = 0; ///< seq_e
  std::uint64_t unfinished_tokens = 0;   ///< tok_e, total tokens of those requests
  std::uint64_t read_queue_tokens = 0;   ///< read_q, waiting in the storage read queue of the engine's node
  std::uint64_t free_hbm_tokens = 0;     ///< tokens of KV-cache that still fit; read for decode engines only
};

struct waiting_request {
  request_id request;
  std::uint64_t tokens = 0; ///< whole length: cached and missing
};

struct assignment {
  request_id request;
  engine_id engine;
  friend bool operator==(const assignment&, const assignment&) = default;
};

} // namespace dualpath::core

// The DRAM pool of an engine (PE or DE buffer), in whole Full Blocks. A request gets all its slots at once,
// first come first served, so that two requests can never wait for each other's halves.
#pragma once

#include "core/slot_allocator.hpp"
#include "core/usage_gauge.hpp"
#include "proto/interfaces.hpp"

#include <deque>

namespace dualpath::actors {

struct buffer_pool_state {
  struct waiting_grant {
    std::uint32_t count = 0;
    caf::typed_response_promise<proto::granted_slots> promise;
  };

  static inline const char* name = "buffer_pool";
  core::slot_allocator slots;
  std::deque<waiting_grant> waiting;
  core::usage_gauge::share in_use;

  void serve();
  void count();
};

/// `usage` may be null.
proto::buffer_pool_actor::behavior_type
buffer_pool(proto::buffer_pool_actor::stateful_pointer<buffer_pool_state> self, std::uint32_t slots,
            core::usage_gauge* usage);

} // namespace dualpath::actors

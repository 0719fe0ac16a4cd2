// What devices tell, on its way to the actor that asked.
#pragma once

#include "proto/messages.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace dualpath::actors {

inline proto::batch_sampled sampled_event(std::uint64_t batch,
                                          core::result<std::vector<core::token_id>> sampled) {
  proto::batch_sampled event{batch, {}, {}};
  if (sampled) {
    event.ids = std::move(*sampled);
  } else {
    event.status = core::result<void>{sampled.error()};
  }
  return event;
}

} // namespace dualpath::actors

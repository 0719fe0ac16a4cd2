// Private to ucx_endpoint.
#pragma once

#include "net/ucx_endpoint.hpp"

namespace dualpath::net {

/// Rows of a job that travel in one message and are answered by one.
struct ucx_endpoint::chunk {
  ucx_endpoint* endpoint;
  ucx_job* job;
  std::uint64_t number;
  std::vector<std::span<std::byte>> rows; ///< here
  wire::bytes header, staged;
  bool sent = false, answered = false;
};

} // namespace dualpath::net

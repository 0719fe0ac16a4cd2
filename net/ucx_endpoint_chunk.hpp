// Private to ucx_endpoint.
#pragma once

#include "net/ucx_endpoint.hpp"

namespace dualpath::net {

/// A message that carries a chunk of a put, or asks for chunks of gets. Lives as long as one of its chunks.
struct ucx_endpoint::carrier {
  ucx_endpoint* endpoint;
  wire::bytes header, staged;
  std::vector<chunk*> chunks;
};

/// Rows of a job that are answered together.
struct ucx_endpoint::chunk {
  ucx_job* job;
  std::uint64_t number;
  std::vector<std::span<std::byte>> rows; ///< here
  std::shared_ptr<carrier> message;
  bool sent = false, answered = false;
};

} // namespace dualpath::net

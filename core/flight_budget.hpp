// Back-pressure between processes. An actor system queues without bound for a peer that reads slowly, or not
// at all until it is found dead, and the contexts of requests are long: hundreds of megabytes may pile up. So
// whoever hands out requests counts, for each peer, the bytes of those it was given and has not answered to
// yet, and keeps what is over the bound waiting where it is. The first word of a peer about a request is its
// acknowledgement. Answers and orders are never held back: a peer that is out of credit can still be heard
// and told to stop, so nothing waits in a circle.
//
// Plain accounting, for one actor; not thread-safe.
#pragma once

#include "core/flight_peaks.hpp"
#include "core/ids.hpp"

#include <cstdint>
#include <map>

namespace dualpath::core {

class flight_budget {
public:
  /// A bound of 0 is none. `peaks`, which may be null, is told of every new peak and must outlive this
  /// object.
  explicit flight_budget(std::uint64_t bound_bytes = 0, flight_peaks* peaks = nullptr)
      : bound_bytes_{bound_bytes}, peaks_{peaks} {}

  /// Whether the peer may be given another request: less than the bound is in flight. So one that is larger
  /// than the bound goes alone, and never more than the bound and one request are in flight.
  bool has_room(node_id peer) const;
  /// A request that is in flight already is given anew, in place of the earlier time.
  void give(node_id peer, request_id request, std::uint64_t bytes);
  /// Whether there was anything to acknowledge.
  bool acknowledge(request_id request);

  std::uint64_t in_flight_bytes(node_id peer) const;

private:
  struct flight {
    node_id peer;
    std::uint64_t bytes = 0;
  };
  std::uint64_t bound_bytes_ = 0;
  flight_peaks* peaks_ = nullptr;
  std::map<request_id, flight> flights_;
  std::map<node_id, std::uint64_t> bytes_;
};

} // namespace dualpath::core

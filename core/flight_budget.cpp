#include "core/flight_budget.hpp"

namespace dualpath::core {

bool flight_budget::has_room(node_id peer) const {
  return bound_bytes_ == 0 || in_flight_bytes(peer) < bound_bytes_;
}

void flight_budget::give(node_id peer, request_id request, std::uint64_t bytes) {
  acknowledge(request);
  flights_.emplace(request, flight{peer, bytes});
  auto& total = bytes_[peer];
  total += bytes;
  if (peaks_) peaks_->note(peer, total);
}

bool flight_budget::acknowledge(request_id request) {
  auto known = flights_.extract(request);
  if (known.empty()) return false;
  bytes_[known.mapped().peer] -= known.mapped().bytes;
  return true;
}

std::uint64_t flight_budget::in_flight_bytes(node_id peer) const {
  auto found = bytes_.find(peer);
  return found == bytes_.end() ? 0 : found->second;
}

} // namespace dualpath::core

// The door of an engine: what carries an epoch older than one that the engine has seen of that request is
// dropped. A message that was held up on a connection of its own may come long after its attempt, or even its
// request, is over; what it would open, nobody would close.
//
// Epochs are unique in the ledger and rise, so what has to be remembered is bounded by its oldest open
// request: the scheduler tells that one's epoch now and then, and all below it is old without being
// remembered. Beyond a fixed number the oldest are forgotten all the same: what gets in then is left to
// stocktaking, as is what comes before an engine that was restarted has heard of any. Not thread-safe.
#pragma once

#include "core/ids.hpp"

#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace dualpath::core {

class epoch_door {
public:
  explicit epoch_door(std::size_t most_requests = 1 << 16) : most_requests_{most_requests} {}

  /// False where that epoch of the request is known to be over.
  bool admits(request_id request, epoch of) const;
  /// The request is in that epoch: older ones are over.
  void reached(request_id request, epoch now);
  /// So is this one.
  void ended(request_id request, epoch of) { reached(request, epoch{of.value + 1}); }
  /// All requests that are open are in that epoch or a newer one.
  void forget_below(epoch oldest);

  std::size_t remembered() const { return newest_.size(); }

private:
  void forget_oldest();

  std::size_t most_requests_;
  epoch oldest_;
  std::map<request_id, epoch> newest_;
  std::set<std::pair<epoch, request_id>> by_epoch_;
};

} // namespace dualpath::core

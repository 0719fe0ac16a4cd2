#include "core/lease.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace dualpath::core {

namespace {

error not_open(request_id request) {
  return {errc::not_found,
          "Request " + std::to_string(request.value) + " is not open; it was closed or never opened."};
}

error old_epoch(const lease& current, core::epoch given) {
  return {errc::refused, "Request " + std::to_string(current.request.value) + " is in epoch "
                             + std::to_string(current.epoch.value) + ", so epoch "
                             + std::to_string(given.value) + " no longer owns it; drop the work."};
}

bool takes_part(const lease& l, engine_id engine) {
  return std::find(l.participants.begin(), l.participants.end(), engine) != l.participants.end();
}

} // namespace

result<lease> lease_ledger::open(request_id request) {
  auto [place, is_new] = leases_.try_emplace(request);
  if (!is_new)
    return error{errc::invalid_argument, "Request " + std::to_string(request.value)
                                             + " is open already; close it before it is opened again."};
  place->second.request = request;
  place->second.epoch = next_epoch();
  return place->second;
}

result<lease> lease_ledger::hand_over(request_id request, core::epoch from, core::stage to, engine_id owner,
                                      std::vector<engine_id> participants) {
  auto place = leases_.find(request);
  if (place == leases_.end()) return not_open(request);
  auto& current = place->second;
  if (current.epoch != from) return old_epoch(current, from);
  if (to == stage::waiting)
    return error{errc::invalid_argument,
                 "Request " + std::to_string(request.value)
                     + " cannot be handed to an engine as waiting; revoke it instead."};
  auto follows = current.stage == stage::prefill && to == stage::decode;
  auto epoch = follows ? decode_epoch(from) : next_epoch();
  current = lease{request, epoch, to, owner, std::move(participants)};
  return current;
}

result<lease> lease_ledger::revoke(request_id request) {
  auto place = leases_.find(request);
  if (place == leases_.end()) return not_open(request);
  place->second = lease{request, next_epoch(), stage::waiting, engine_id{}, {}};
  return place->second;
}

result<void> lease_ledger::close(request_id request, core::epoch epoch) {
  auto place = leases_.find(request);
  if (place == leases_.end()) return not_open(request);
  if (place->second.epoch != epoch) return old_epoch(place->second, epoch);
  leases_.erase(place);
  return {};
}

bool lease_ledger::is_current(request_id request, core::epoch epoch) const {
  auto* current = find(request);
  return current && current->epoch == epoch;
}

const lease* lease_ledger::find(request_id request) const {
  auto place = leases_.find(request);
  return place == leases_.end() ? nullptr : &place->second;
}

epoch lease_ledger::oldest_epoch() const {
  auto oldest = core::epoch{last_epoch_ + 2};
  for (const auto& [request, l] : leases_) oldest = std::min(oldest, l.epoch);
  return oldest;
}

std::vector<lease> lease_ledger::owned_by(engine_id engine) const {
  std::vector<lease> owned;
  for (const auto& [request, l] : leases_)
    if (l.stage != stage::waiting && l.owner == engine) owned.push_back(l);
  return owned;
}

std::vector<lease> lease_ledger::involving(engine_id engine) const {
  std::vector<lease> involved;
  for (const auto& [request, l] : leases_)
    if ((l.stage != stage::waiting && l.owner == engine) || takes_part(l, engine)) involved.push_back(l);
  return involved;
}

} // namespace dualpath::core

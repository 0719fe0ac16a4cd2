// Who owns a request. A request is owned by exactly one actor at a time; every hand-over raises its epoch,
// and whatever still carries an older one (messages, transfers, writes) is refused at the door. When an
// engine dies, the ledger names the requests it owned or took part in, so that nothing is lost and nothing is
// done twice. A plain object inside the request scheduler; not thread-safe.
#pragma once

#include "core/ids.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace dualpath::core {

enum class stage : std::uint8_t {
  waiting, ///< owned by the ledger itself
  prefill, ///< owned by a prefill engine; a decode engine may hold a landing for it
  decode,  ///< owned by a decode engine
};

constexpr const char* to_string(stage s) {
  return s == stage::waiting ? "waiting" : s == stage::prefill ? "prefill" : "decode";
}

struct lease {
  request_id request;
  core::epoch epoch; ///< unique in the ledger: also ids that are used again never meet an old epoch
  core::stage stage = stage::waiting;
  engine_id owner;                     ///< meaningless while waiting
  std::vector<engine_id> participants; ///< engines beside the owner that hold something of the request
};

/// The epoch that a request in prefill will have in decode: the two engines hand it over between themselves,
/// while the ledger still hears of it.
constexpr core::epoch decode_epoch(core::epoch in_prefill) { return core::epoch{in_prefill.value + 1}; }
/// Its inverse.
constexpr core::epoch prefill_epoch(core::epoch in_decode) { return core::epoch{in_decode.value - 1}; }

class lease_ledger {
public:
  /// A new request, waiting. Fails with invalid_argument where it is open already.
  result<lease> open(request_id request);
  /// Gives the request to an engine in `to` (prefill or decode; back to waiting is revoke). `from` must be
  /// the current epoch, else refused; not_found where the request is not open. Also how participants are
  /// replaced: same stage, same owner, new epoch.
  result<lease> hand_over(request_id request, core::epoch from, core::stage to, engine_id owner,
                          std::vector<engine_id> participants = {});
  /// Back to waiting with a raised epoch, without asking the owner. Fails with not_found.
  result<lease> revoke(request_id request);
  /// The request is done. Fails with not_found, or refused where the epoch is an old one.
  result<void> close(request_id request, core::epoch epoch);

  bool is_current(request_id request, core::epoch epoch) const;
  /// Null where it is not open; valid until the next change.
  const lease* find(request_id request) const;
  /// In order of request.
  std::vector<lease> owned_by(engine_id engine) const;
  /// Owned by the engine, or with the engine as a participant.
  std::vector<lease> involving(engine_id engine) const;
  /// The oldest that a request is in; where none is open, one that none was in. Later ones are never older.
  core::epoch oldest_epoch() const;
  std::size_t size() const { return leases_.size(); }

private:
  // Even numbers, so that each has an odd one after it for its hand-over to decode.
  core::epoch next_epoch() { return core::epoch{last_epoch_ += 2}; }

  std::map<request_id, lease> leases_;
  std::uint64_t last_epoch_ = 0;
};

} // namespace dualpath::core

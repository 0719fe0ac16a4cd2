// How actors of different nodes send to each other: as everyone does, but for the message that a fault plan
// loses or delays, as a connection that breaks would.
#pragma once

#include "actors/settings.hpp"
#include "proto/messages.hpp"

#include <optional>
#include <type_traits>
#include <utility>

namespace dualpath::actors {

/// The leg a message travels; nothing for one that no plan can lose.
template <class Message>
constexpr std::optional<core::leg> leg_of() {
  using core::leg;
  constexpr auto is = []<class M>(std::type_identity<M>) { return std::is_same_v<Message, M>; };
#define DUALPATH_LEG(name)                                                                                   \
  if constexpr (is(std::type_identity<proto::name>{})) return leg::name
  DUALPATH_LEG(prefill_work);
  DUALPATH_LEG(open_landing);
  DUALPATH_LEG(landing);
  DUALPATH_LEG(hits_loaded);
  DUALPATH_LEG(part_read);
  DUALPATH_LEG(hits_read);
  DUALPATH_LEG(decode_work);
  DUALPATH_LEG(handed_over);
  DUALPATH_LEG(close_landing);
  DUALPATH_LEG(tokens);
  DUALPATH_LEG(round_done);
  DUALPATH_LEG(request_finished);
  DUALPATH_LEG(request_failed);
  DUALPATH_LEG(abandon);
  DUALPATH_LEG(abandoned);
  DUALPATH_LEG(interrupted);
#undef DUALPATH_LEG
  return std::nullopt;
}

/// A late message arrives when whoever waits for it has long acted without.
template <class Self, class Handle, class Message>
void deliver(Self* self, const cluster_settings& settings, const Handle& to, Message message) {
  constexpr auto travels = leg_of<Message>();
  static_assert(travels, "a message that no fault plan knows is sent as usual");
  auto fault = settings.faults ? settings.faults->next(*travels) : core::fault_kind::none;
  if (fault == core::fault_kind::lost) return;
  if (fault == core::fault_kind::late) {
    self->delayed_send(to, 4 * settings.deadline, std::move(message));
    return;
  }
  self->send(to, std::move(message));
}

} // namespace dualpath::actors

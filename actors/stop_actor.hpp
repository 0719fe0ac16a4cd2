// Ends an actor at once, whatever waits in its mailbox: an exit message of normal priority would queue behind
// it all.
#pragma once

#include <caf/all.hpp>

namespace dualpath::actors {

inline void stop_actor(const caf::actor_addr& address) {
  auto handle = caf::actor_cast<caf::actor>(address);
  if (handle)
    caf::anon_send<caf::message_priority::high>(handle, caf::exit_msg{address, caf::exit_reason::kill});
}

} // namespace dualpath::actors

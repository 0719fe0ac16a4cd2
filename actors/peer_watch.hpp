// Cuts peers of the control plane that have been silent for too long, in time in which this process ran: one
// that was paused finds all its peers silent at once, and must not blame them (core/policy/silence_watch).
// CAF has such a timeout too, which knows no pauses; this takes its place. Ticks where the bytes of peers are
// read, in CAF's event loop, so that time in which nobody could have been heard does not count.
#pragma once

#include "core/clock.hpp"
#include "core/pauses.hpp"

#include <caf/all.hpp>

#include <atomic>
#include <memory>

namespace dualpath::actors {

class peer_watch {
public:
  /// Of a system without connections only the pauses are told.
  peer_watch(caf::actor_system& system, core::duration timeout, core::duration interval);
  ~peer_watch();
  peer_watch(const peer_watch&) = delete;

  /// Of this process since the start. Thread-safe.
  core::pauses pauses() const;

private:
  struct judge;

  void arm();

  caf::actor_system& system_;
  core::duration interval_;
  std::shared_ptr<judge> judge_; ///< also of a tick that is still to come when the watch ends
  core::steady_clock clock_;     ///< ends first
};

} // namespace dualpath::actors

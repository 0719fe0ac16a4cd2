// How a run is interrupted: the first SIGINT or SIGTERM lets the rounds under way end and what was done be
// reported, the second ends the process at once.
#pragma once

#include "apps/interrupts.hpp"
#include "core/drain_switch.hpp"

#include <atomic>
#include <memory>

namespace dualpath::apps {

/// Lives as long as a command that serves; one at a time.
class graceful_end {
public:
  graceful_end();

  /// Thrown by the first signal.
  std::shared_ptr<core::drain_switch> drain() const { return drain_; }
  bool requested() const { return signal_ != 0; }
  /// `otherwise` where no signal came, else 128 + its number, as shells have it.
  int exit_code(int otherwise) const { return requested() ? 128 + signal_ : otherwise; }

private:
  std::shared_ptr<core::drain_switch> drain_ = std::make_shared<core::drain_switch>();
  std::atomic<int> signal_{0};
  interrupts interrupts_; ///< last: its thread uses the rest
};

} // namespace dualpath::apps

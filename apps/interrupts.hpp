// SIGINT and SIGTERM as calls on an ordinary thread, where anything may be done that a signal handler must
// not.
#pragma once

#include <functional>
#include <thread>

namespace dualpath::apps {

/// One at a time in a process. Signals that were ignored when it was made, as those of a job in the
/// background, stay ignored.
class interrupts {
public:
  /// `count` is 1 for the first signal, of either kind.
  using handler = std::function<void(int signal, unsigned count)>;

  /// The handler is called on a thread of this object, one signal after another.
  explicit interrupts(handler on_signal);
  /// Signals do again what they did before; no call is under way any more. Not from within the handler.
  ~interrupts();
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

private:
  std::thread thread_;
};

} // namespace dualpath::apps

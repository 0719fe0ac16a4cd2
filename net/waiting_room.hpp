// Connections that were accepted before they said anything, of one listener. Whoever watches the door instead
// of the listener is woken by either: somebody new, or somebody who waits and speaks at last or hangs up.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

namespace dualpath::net {

/// Thread-safe; does not throw.
class waiting_room {
public:
  /// Null: no descriptor for the door.
  static std::shared_ptr<waiting_room> open(int listener) noexcept;
  /// Closes those who still wait.
  ~waiting_room();
  waiting_room(const waiting_room&) = delete;
  waiting_room& operator=(const waiting_room&) = delete;

  /// A descriptor that is readable while there is something to be done.
  int door() const { return door_; }
  /// Takes over the connection. The one that must go for it, itself if it cannot wait; -1: none.
  int admit(int connection) noexcept;
  /// One that has something to say or has hung up, given back to the caller; -1: none.
  int next_to_speak() noexcept;

private:
  explicit waiting_room(int door) : door_{door} {}

  int door_;
  std::mutex mutex_;
  std::deque<int> waiting_; ///< the oldest first
};

} // namespace dualpath::net

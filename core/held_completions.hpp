// Completions that an injected fault holds back: until a time, or until told otherwise. Whoever injects
// faults ends them all before what they call is gone.
#pragma once

#include "core/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace dualpath::core {

class held_completions {
public:
  /// Calls `end` once: `after` that time, on a thread of the clock, or from end_all().
  void hold(core::clock& clock, duration after, std::function<void()> end);
  /// Calls `end` once, from end_all().
  void hold(std::function<void()> end);
  /// Ends everything held, and from now on whatever would be held, at once.
  void end_all();
  std::size_t size() const;

private:
  struct state {
    mutable std::mutex mutex;
    std::map<std::uint64_t, std::function<void()>> held;
    std::uint64_t next = 1;
    bool over = false;
  };
  std::optional<std::uint64_t> keep(std::function<void()>& end);

  std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace dualpath::core

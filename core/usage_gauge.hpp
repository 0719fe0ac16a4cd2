// What a cluster holds for its requests at a moment: buffer slots, HBM blocks, pinned prefixes, leases. When
// no request is open all must be back at zero; whatever is not has leaked. Thread-safe.
#pragma once

#include "core/clock.hpp"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace dualpath::core {

enum class resource : std::uint8_t { buffer_slots, hbm_blocks, pinned_prefixes, leases };
inline constexpr std::size_t resource_count = 4;
constexpr const char* to_string(resource r) {
  return r == resource::buffer_slots      ? "buffer slots"
         : r == resource::hbm_blocks      ? "HBM blocks"
         : r == resource::pinned_prefixes ? "pinned prefixes"
                                          : "leases";
}

using resource_usage = std::array<std::uint64_t, resource_count>;

class usage_gauge {
  struct state {
    mutable std::mutex mutex;
    std::condition_variable changed;
    resource_usage used{};
    bool given_up = false;
    bool idle() const { return used == resource_usage{}; }
  };

public:
  /// What one owner holds; nothing any more once it is destroyed.
  class share {
  public:
    share() = default;
    share(share&& other) noexcept = default;
    share& operator=(share&& other) noexcept;
    ~share() { set(0); }
    void set(std::uint64_t used);

  private:
    friend class usage_gauge;
    share(std::shared_ptr<state> gauge, resource what) : gauge_{std::move(gauge)}, what_{what} {}
    std::shared_ptr<state> gauge_; ///< none: nobody counts
    resource what_ = resource::buffer_slots;
    std::uint64_t used_ = 0;
  };

  share open(resource what) { return {state_, what}; }
  resource_usage used() const;
  /// Blocks until nothing is held, or `limit` has passed on the clock, which must outlive this object's use.
  /// What is held then.
  resource_usage await_idle(core::clock& clock, duration limit);

private:
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

/// A share in a gauge that may not be there.
inline usage_gauge::share open_share(usage_gauge* gauge, resource what) {
  return gauge ? gauge->open(what) : usage_gauge::share{};
}

} // namespace dualpath::core

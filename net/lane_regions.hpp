// The local memory that a lane's transfers use. To find a region takes a lock and to keep it an atomic count,
// and either waits until all that the copy before has written has left the core: for 64 KiB a twentieth of
// the copy. A lane therefore keeps what it has found, and counts uses on its own thread. For that thread
// only.
#pragma once

#include "core/ids.hpp"
#include "net/ucx_memory.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace dualpath::net {

struct lane_region {
  std::shared_ptr<ucx_region> region;
  std::uint32_t uses = 0;
  bool released = false;
};

/// Keeps a region for one transfer.
class region_use {
public:
  region_use() = default;
  explicit region_use(lane_region& of) : of_{&of} { ++of.uses; }
  region_use(region_use&& other) noexcept : of_{std::exchange(other.of_, nullptr)} {}
  region_use& operator=(region_use&& other) noexcept {
    std::swap(of_, other.of_);
    return *this;
  }
  ~region_use() {
    if (of_ != nullptr && --of_->uses == 0 && of_->released) of_->region.reset();
  }

  ucx_region* operator->() const { return of_->region.get(); }

private:
  lane_region* of_ = nullptr;
};

class lane_regions {
public:
  /// Null where the lane has not met the region yet, or it was released.
  lane_region* find(core::region_id id) {
    auto found = id.value < by_id_.size() ? by_id_[id.value].get() : nullptr;
    return found == nullptr || found->released ? nullptr : found;
  }
  lane_region& keep(core::region_id id, std::shared_ptr<ucx_region> region) {
    if (id.value >= by_id_.size()) by_id_.resize(id.value + 1);
    by_id_[id.value] = std::make_unique<lane_region>(lane_region{std::move(region)});
    return *by_id_[id.value];
  }
  /// Lets go of the region with its last use.
  void release(core::region_id id) {
    auto found = find(id);
    if (found == nullptr) return;
    found->released = true;
    if (found->uses == 0) found->region.reset();
  }
  /// There are no uses.
  void clear() { by_id_.clear(); }

private:
  std::vector<std::unique_ptr<lane_region>> by_id_; ///< null what was not met; ids are never given twice
};

} // namespace dualpath::net

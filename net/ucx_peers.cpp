#include "net/ucx_peers.hpp"

namespace dualpath::net {

std::shared_ptr<ucx_peer> ucx_peers::remember(const wire::address& address) {
  std::lock_guard lock{mutex_};
  auto& known = by_instance_[address.sender.who.instance];
  if (!known) {
    known = std::make_shared<ucx_peer>();
    known->id = peer_id{static_cast<std::uint32_t>(by_id_.size())};
    known->who = address.sender.who;
    known->addresses = address.lanes;
    by_id_.push_back(known.get());
  }
  return known;
}

std::shared_ptr<ucx_peer> ucx_peers::find(peer_id id) const {
  auto known = lookup(id);
  return known != nullptr ? known->shared_from_this() : nullptr;
}

std::vector<std::shared_ptr<ucx_peer>> ucx_peers::find_engine(core::engine_id engine) const {
  std::vector<std::shared_ptr<ucx_peer>> found;
  for (std::size_t i = 0; i < by_id_.size(); ++i)
    if (auto peer = by_id_.at_or_none(i); peer->who.engine == engine)
      found.push_back(peer->shared_from_this());
  return found;
}

std::shared_ptr<ucx_peer> ucx_peers::find_instance(std::uint64_t instance) const {
  std::lock_guard lock{mutex_};
  auto found = by_instance_.find(instance);
  return found == by_instance_.end() ? nullptr : found->second;
}

remote_region_id ucx_peers::import(peer_id peer, const wire::region& region) {
  std::lock_guard lock{mutex_};
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    auto& known = *regions_[i];
    if (known.peer == peer && known.base == region.base && known.size == region.size
        && known.keys == region.keys) {
      return remote_region_id{static_cast<std::uint32_t>(i)};
    }
  }
  regions_.push_back(std::make_unique<const ucx_remote_region>(
      ucx_remote_region{peer, region.base, region.size, region.keys}));
  regions_by_id_.push_back(regions_.back().get());
  return remote_region_id{static_cast<std::uint32_t>(regions_.size() - 1)};
}

core::region_id ucx_regions::add(std::shared_ptr<ucx_region> region) {
  std::lock_guard lock{mutex_};
  core::region_id id{static_cast<std::uint32_t>(regions_.size())};
  regions_.push_back(std::move(region));
  return id;
}

std::shared_ptr<ucx_region> ucx_regions::find(core::region_id id) const {
  std::lock_guard lock{mutex_};
  return id.value < regions_.size() ? regions_[id.value] : nullptr;
}

std::shared_ptr<ucx_region> ucx_regions::find(std::uint64_t base, std::uint64_t size) const {
  std::lock_guard lock{mutex_};
  for (auto& region : regions_) {
    if (!region) continue;
    auto bytes = region->bytes();
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) == base && bytes.size() == size) return region;
  }
  return nullptr;
}

void ucx_regions::remove(core::region_id id) {
  std::shared_ptr<ucx_region> last; // unregistered outside the lock
  std::lock_guard lock{mutex_};
  if (id.value < regions_.size()) last = std::move(regions_[id.value]);
}

void ucx_regions::clear() {
  std::lock_guard lock{mutex_};
  regions_.clear();
}

} // namespace dualpath::net

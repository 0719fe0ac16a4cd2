// Who a UCX fabric knows: peers by process instance, the memory they exported, and our own regions.
// Thread-safe.
#pragma once

#include "net/append_only.hpp"
#include "net/ucx_job.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dualpath::net {

class ucx_peers {
public:
  /// The peer of that instance, made if it is new.
  std::shared_ptr<ucx_peer> remember(const wire::address& address);
  std::shared_ptr<ucx_peer> find(peer_id id) const;
  std::vector<std::shared_ptr<ucx_peer>> find_engine(core::engine_id engine) const;
  std::shared_ptr<ucx_peer> find_instance(std::uint64_t instance) const;

  /// The same exported region gets the same id.
  remote_region_id import(peer_id peer, const wire::region& region);
  /// For transfers, without a lock. What is known once stays as long as this; null what is not.
  ucx_peer* lookup(peer_id peer) const { return by_id_.at_or_none(peer.value); }
  const ucx_remote_region* lookup(remote_region_id region) const {
    return regions_by_id_.at_or_none(region.value);
  }

private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ucx_peer>> by_instance_;
  append_only<ucx_peer*> by_id_;
  std::vector<std::unique_ptr<const ucx_remote_region>> regions_;
  append_only<const ucx_remote_region*> regions_by_id_;
};

class ucx_regions {
public:
  core::region_id add(std::shared_ptr<ucx_region> region);
  std::shared_ptr<ucx_region> find(core::region_id id) const;
  /// As a peer names it.
  std::shared_ptr<ucx_region> find(std::uint64_t base, std::uint64_t size) const;
  void remove(core::region_id id);
  void clear();

private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ucx_region>> regions_; ///< by id; null what was removed
};

} // namespace dualpath::net

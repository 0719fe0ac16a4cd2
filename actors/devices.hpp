// The devices of one engine: made once by the composition root, kept across restarts of the engine's actors,
// which take them over only when idle (engine_supervisor fences them).
#pragma once

#include "core/gate.hpp"
#include "core/ids.hpp"
#include "core/node_counters.hpp"
#include "kernels/compute.hpp"
#include "net/fabric.hpp"
#include "storage/block_store.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace dualpath::actors {

/// Connections of a fabric; the actors above it come and go.
struct fabric_link {
  std::vector<std::uint8_t> address; ///< of the peer, to tell a new process from an old one
  net::peer_id peer;
  net::remote_region_id pool;
};

struct engine_devices {
  core::engine_id engine;
  core::node_id node;
  core::engine_role role = core::engine_role::prefill;
  // In the order of their making: what ends first may still be using what stands above it.
  std::shared_ptr<net::fabric> fabric;
  net::memory_region pool;                     ///< DRAM in whole Full Blocks: the PE or DE buffer
  net::memory_region staging;                  ///< PE: HBM for a few layers of a forward batch
  std::shared_ptr<kernels::device_memory> hbm; ///< DE: HBM for the KV-cache in decode
  std::shared_ptr<kernels::compute_device> compute;
  core::gate computing; ///< held by every computation and copy under way
  std::map<core::engine_id, fabric_link> links;
};

using devices_ptr = std::shared_ptr<engine_devices>;

struct node_devices {
  core::node_id node;
  core::engine_role role = core::engine_role::prefill;
  std::shared_ptr<core::node_counters> counters = std::make_shared<core::node_counters>();
  std::vector<devices_ptr> engines;
  std::shared_ptr<storage::block_store> store; ///< none where nothing is stored; works on the engines' pools
};

} // namespace dualpath::actors

// Builds the devices of a whole cluster in this process, as a run asks for: real compute, fabric and store,
// or their stand-ins where a policy or an option names them. The only place that knows concrete devices.
#pragma once

#include "actors/devices.hpp"
#include "apps/cluster_sizes.hpp"
#include "apps/options.hpp"
#include "core/clock.hpp"
#include "core/layout/block_key.hpp"
#include "core/result.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/model/model_weights.hpp"
#include "storage/sim_store.hpp"
#include "storage/store_spec.hpp"

#include <memory>
#include <vector>

namespace dualpath::apps {

/// What all runs of one command share: loading a model twice would be waste.
struct compute_source {
  std::shared_ptr<const kernels::model_weights> weights; ///< none with the pattern device
  std::shared_ptr<kernels::thread_pool> pool;
};
core::result<compute_source> open_compute_source(const run_options& options);

core::result<std::unique_ptr<kernels::compute_device>>
make_compute(const run_options& options, const compute_source& source, core::clock& clock);

/// The fingerprint of the model with its layout: KV bytes of another block size are other bytes.
core::model_fingerprint fingerprint_of(const kernels::compute_device& device);

/// What a node is in its cluster.
struct node_place {
  core::node_id node;
  core::engine_role role = core::engine_role::prefill;
  core::engine_id first_engine;
  std::shared_ptr<storage::block_store> store; ///< to be shared; none: one of its own
};

/// The devices of one node. `store` is used by policies that store anything outside this process; `shelf`
/// by the oracle, whose store is memory that all nodes of a process share.
core::result<std::shared_ptr<actors::node_devices>>
make_node(const run_options& options, const compute_source& source, core::clock& clock,
          const engine_sizes& sizes, const storage::store_spec& store,
          std::shared_ptr<storage::sim_shelf> shelf, const node_place& place);

/// The block store of a node, as the policy asks; null where nothing is stored.
core::result<std::shared_ptr<storage::block_store>> open_node_store(const run_options& options,
                                                                    const storage::store_spec& spec,
                                                                    std::shared_ptr<storage::sim_shelf> shelf,
                                                                    const kernels::compute_device& device);

using node_list = std::vector<std::shared_ptr<actors::node_devices>>;

/// All nodes of a cluster within this process.
core::result<node_list> make_nodes(const run_options& options, const compute_source& source,
                                   core::clock& clock, const engine_sizes& sizes,
                                   const storage::store_spec& store);

} // namespace dualpath::apps

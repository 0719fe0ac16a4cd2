#include "apps/cluster_devices.hpp"

#include "apps/engine_copies.hpp"
#include "apps/lane_separation.hpp"
#include "core/log.hpp"
#include "kernels/cpu/cpu_device.hpp"
#include "kernels/pattern/pattern_device.hpp"
#include "storage/sim_store.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <thread>

namespace dualpath::apps {

core::result<compute_source> open_compute_source(const run_options& options) {
  compute_source source;
  if (options.compute.kind == compute_kind::pattern) return source;
  auto weights = kernels::load_model(options.model);
  if (!weights) return weights.error();
  source.weights = std::move(*weights);
  auto threads = options.compute_threads != 0 ? options.compute_threads : std::thread::hardware_concurrency();
  source.pool = std::make_shared<kernels::thread_pool>(std::max(1u, threads));
  return source;
}

core::result<std::unique_ptr<kernels::compute_device>>
make_compute(const run_options& options, const compute_source& source, core::clock& clock) {
  if (options.compute.kind == compute_kind::pattern) {
    return kernels::make_pattern_device(
        {clock, options.pattern_shape, options.block_tokens, options.compute.pattern_flops});
  }
  kernels::cpu_options cpu;
  cpu.kv_dtype = options.kv_dtype;
  cpu.block_tokens = options.block_tokens;
  cpu.pool = source.pool;
  return kernels::make_cpu_device(source.weights, cpu);
}

core::model_fingerprint fingerprint_of(const kernels::compute_device& device) {
  auto layout = device.layout();
  std::vector<std::byte> input;
  for (auto b : device.model().fingerprint.bytes) input.push_back(static_cast<std::byte>(b));
  for (auto value : {layout.layers, layout.block_tokens, layout.token_bytes})
    for (int shift = 0; shift < 32; shift += 8) input.push_back(static_cast<std::byte>(value >> shift));
  return {core::digest128(input)};
}

core::result<std::shared_ptr<storage::block_store>> open_node_store(const run_options& options,
                                                                    const storage::store_spec& spec,
                                                                    std::shared_ptr<storage::sim_shelf> shelf,
                                                                    const kernels::compute_device& device) {
  if (options.policy == core::policy::recompute) return std::shared_ptr<storage::block_store>{};
  auto layout = device.layout();
  storage::store_request request{fingerprint_of(device), layout};
  request.capacity_bytes = options.store_capacity_bytes;
  auto opened = shelf ? storage::open_sim_store({layout.full_block_bytes(), nullptr, std::move(shelf)})
                      : storage::open_store(spec, request);
  if (!opened) return opened.error();
  return std::shared_ptr<storage::block_store>{std::move(*opened)};
}

namespace {

/// RDMA devices are chosen by naming their transports.
bool names_rdma(const std::string& transports) {
  constexpr const char* rdma[] = {"rc", "ud", "dc", "ib"};
  return std::any_of(std::begin(rdma), std::end(rdma),
                     [&](const char* name) { return transports.find(name) != std::string::npos; });
}

core::result<std::shared_ptr<net::fabric>> open_fabric(const run_options& options, core::clock& clock,
                                                       core::engine_id id,
                                                       const kernels::compute_device& compute) {
  net::ucx_fabric_options fabric;
  fabric.clock = &clock;
  fabric.self = {0, id, core::incarnation{}, fingerprint_of(compute), compute.layout()};
  fabric.transports = options.transports;
  fabric.secret = options.data_plane_secret;
  fabric.busy_poll = options.busy_poll;
  if (!options.net_device.empty() && !names_rdma(options.transports))
    fabric.settings.emplace_back("NET_DEVICES", options.net_device);
  auto opened = open_separated_fabric(options, std::move(fabric));
  if (!opened) return opened.error();
  return std::shared_ptr<net::fabric>{std::move(*opened)};
}

/// Chooses what copies between the engine's memories are made with, and says so.
core::result<void> take_over(actors::engine_devices& devices, const run_options& options,
                             std::unique_ptr<kernels::compute_device> compute) {
  std::array memory{devices.pool.bytes, devices.hbm ? devices.hbm->bytes() : devices.staging.bytes};
  auto copies = choose_copies(options.copies, options.qos, std::move(compute), memory);
  if (!copies) return copies.error();
  core::log_event(core::log_level::info, "copies_chosen",
                  {{"node", devices.node},
                   {"engine", devices.engine},
                   {"made_with", copies->made_with},
                   {"why", copies->reason.empty() ? "the NIC reaches all memory" : copies->reason}});
  devices.compute = std::move(copies->device);
  return {};
}

core::result<actors::devices_ptr> make_engine(const run_options& options, const compute_source& source,
                                              core::clock& clock, const engine_sizes& sizes,
                                              core::engine_id id, const actors::node_devices& node) {
  auto devices = std::make_shared<actors::engine_devices>();
  devices->engine = id;
  devices->node = node.node;
  devices->role = node.role;
  auto compute = make_compute(options, source, clock);
  if (!compute) return compute.error();
  auto layout = (*compute)->layout();
  auto fabric = open_fabric(options, clock, id, **compute);
  if (!fabric) return fabric.error();
  devices->fabric = std::move(*fabric);
  auto prefill = node.role == core::engine_role::prefill;
  auto slot_bytes = storage::padded_bytes(layout.full_block_bytes());
  auto pool = devices->fabric->allocate((prefill ? sizes.pe_slots : sizes.de_slots) * slot_bytes);
  if (!pool) return pool.error();
  devices->pool = *pool;
  if (prefill) {
    auto staging = devices->fabric->allocate(sizes.staging_bytes);
    if (!staging) return staging.error();
    devices->staging = *staging;
  } else {
    auto hbm = (*compute)->allocate(sizes.hbm_blocks * layout.full_block_bytes());
    if (!hbm) return hbm.error();
    devices->hbm = std::move(*hbm);
  }
  if (auto taken = take_over(*devices, options, std::move(*compute)); !taken) return taken.error();
  return devices;
}

} // namespace

core::result<std::shared_ptr<actors::node_devices>>
make_node(const run_options& options, const compute_source& source, core::clock& clock,
          const engine_sizes& sizes, const storage::store_spec& store,
          std::shared_ptr<storage::sim_shelf> shelf, const node_place& place) {
  auto probe = make_compute(options, source, clock);
  if (!probe) return probe.error();
  auto node = std::make_shared<actors::node_devices>();
  node->node = place.node;
  node->role = place.role;
  node->store = place.store;
  if (!node->store) {
    auto opened = open_node_store(options, store, std::move(shelf), **probe);
    if (!opened) return opened.error();
    node->store = std::move(*opened);
  }
  for (std::uint32_t g = 0; g < options.gpus_per_node; ++g) {
    core::engine_id id{place.first_engine.value + g};
    auto engine = make_engine(options, source, clock, sizes, id, *node);
    if (!engine) return engine.error();
    node->engines.push_back(std::move(*engine));
  }
  return node;
}

core::result<node_list> make_nodes(const run_options& options, const compute_source& source,
                                   core::clock& clock, const engine_sizes& sizes,
                                   const storage::store_spec& store) {
  std::shared_ptr<storage::sim_shelf> shelf;
  if (options.policy == core::policy::oracle) shelf = storage::make_sim_shelf();
  node_list nodes;
  for (std::uint32_t n = 0; n < options.cluster.prefill_nodes + options.cluster.decode_nodes; ++n) {
    auto role = n < options.cluster.prefill_nodes ? core::engine_role::prefill : core::engine_role::decode;
    node_place place{core::node_id{n}, role, core::engine_id{n * options.gpus_per_node}, {}};
    // Nodes that keep to one capacity share the store itself, so that what any of them reads or writes counts
    // for what is given up.
    if (n > 0 && !shelf && options.store_capacity_bytes != 0) place.store = nodes.front()->store;
    auto node = make_node(options, source, clock, sizes, store, shelf, place);
    if (!node) return node.error();
    nodes.push_back(std::move(*node));
  }
  return nodes;
}

} // namespace dualpath::apps

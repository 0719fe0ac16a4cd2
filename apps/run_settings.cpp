#include "apps/run_settings.hpp"

#include "apps/cluster_devices.hpp"
#include "storage/block_store.hpp"

namespace dualpath::apps {

std::shared_ptr<actors::cluster_settings> base_settings(const run_options& options, core::clock& clock,
                                                        const kernels::compute_device& device) {
  auto settings = std::make_shared<actors::cluster_settings>();
  settings->clock = &clock;
  settings->policy = options.policy;
  settings->layout = device.layout();
  settings->fingerprint = fingerprint_of(device);
  settings->slot_bytes = storage::padded_bytes(settings->layout.full_block_bytes());
  auto free_of_cost = options.policy == core::policy::oracle;
  settings->snic_bytes_per_s = free_of_cost ? 0 : options.snic_bandwidth;
  settings->cnic_bytes_per_s = free_of_cost ? 0 : options.cnic_bandwidth;
  settings->node_shape = core::node_shape{options.gpus_per_node, settings->snic_bytes_per_s,
                                          settings->cnic_bytes_per_s, options.memory_bandwidth};
  settings->control_in_flight_bytes = options.control_in_flight_bytes;
  settings->quota.quota = options.quota;
  settings->quota.max_chunk_tokens = options.chunk_tokens;
  settings->deadline = settings->transfer_deadline = options.deadline;
  settings->compute_deadline = 10 * options.deadline;
  return settings;
}

core::result<engine_sizes> sizes_for(const run_options& options, const kernels::compute_device& device,
                                     const core::trace_stats& trace) {
  auto layout = device.layout();
  const actors::cluster_settings defaults;
  return choose_sizes(options, layout, storage::padded_bytes(layout.full_block_bytes()),
                      defaults.staging_slots, defaults.write_slots, trace, available_memory_bytes());
}

proto::node_ready facts_of(const kernels::compute_device& device) {
  auto layout = device.layout();
  proto::node_ready facts;
  facts.model = device.model().name;
  facts.fingerprint.bytes = fingerprint_of(device).bytes;
  facts.layers = layout.layers;
  facts.block_tokens = layout.block_tokens;
  facts.token_bytes = layout.token_bytes;
  return facts;
}

} // namespace dualpath::apps

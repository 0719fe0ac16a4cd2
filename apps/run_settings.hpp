// What the options of a run mean for its actors; the same on the head and on every node.
#pragma once

#include "actors/settings.hpp"
#include "apps/cluster_sizes.hpp"
#include "apps/options.hpp"
#include "core/workload/trace.hpp"
#include "kernels/compute.hpp"
#include "proto/membership.hpp"

#include <memory>

namespace dualpath::apps {

/// Without what is measured: cost model and thresholds. `clock` must outlive the settings.
std::shared_ptr<actors::cluster_settings> base_settings(const run_options& options, core::clock& clock,
                                                        const kernels::compute_device& device);

/// Memory of each engine on this machine, for requests of the shape of the trace.
core::result<engine_sizes> sizes_for(const run_options& options, const kernels::compute_device& device,
                                     const core::trace_stats& trace);

/// What nodes compare before they serve together.
proto::node_ready facts_of(const kernels::compute_device& device);

} // namespace dualpath::apps

// What the scheduler must know before it can choose (spec §7): how long prefill takes for (cached, computed)
// tokens, how fast storage reads, and from these its thresholds α and β. Measured at start, on the devices
// that will serve.
#pragma once

#include "core/layout/block_layout.hpp"
#include "core/policy/cost_model.hpp"
#include "core/policy/prefill_choice.hpp"
#include "core/result.hpp"
#include "core/workload/trace.hpp"
#include "kernels/compute.hpp"
#include "storage/block_store.hpp"

namespace dualpath::apps {

/// Times prefill passes of several shapes (devices that know their time are asked) and fits the cost model.
core::result<core::attention_cost_model> measure_prefill(kernels::compute_device& device);

/// Bytes per second that reading blocks of this store reaches; writes and removes a few scratch blocks.
core::result<double> measure_read_rate(storage::block_store& store);

/// α = tokens readable in 3 s; β = tokens (cached ones included, as the load counts them) that an engine
/// works off in 5 s on rounds of the trace's mean shape.
core::prefill_thresholds derive_thresholds(const core::attention_cost_model& prefill, double read_bytes_per_s,
                                           const core::block_layout& layout, const core::trace_stats& trace);

} // namespace dualpath::apps

// One run of a cluster as the options ask for, from devices to record.
#pragma once

#include "apps/cluster_devices.hpp"
#include "apps/cluster_session.hpp"
#include "apps/options.hpp"
#include "core/drain_switch.hpp"
#include "core/policy/cost_model.hpp"
#include "core/result.hpp"
#include "core/run_record.hpp"
#include "core/workload/trace.hpp"

#include <functional>
#include <memory>

namespace dualpath::apps {

/// Rounds done, rounds in all, tokens generated.
using progress_function = std::function<void(std::uint64_t, std::uint64_t, std::uint64_t)>;

/// Everything that is the same for all policies of a comparison.
struct run_inputs {
  std::shared_ptr<const core::trace> trace;
  compute_source compute;
  core::attention_cost_model prefill; ///< measured once: no policy changes it
  bool await_idle = false;            ///< end only when nothing is held any more; what is left is recorded
};
core::result<run_inputs> prepare_inputs(const run_options& options);

/// Blocks until the run is over. The record is complete but for what only the report adds. `drain` ends the
/// run early, with a record of the rounds done until then.
core::result<core::run_record> run_once(const run_options& options, const run_inputs& inputs,
                                        cluster_session& session, const progress_function& on_progress,
                                        std::shared_ptr<core::drain_switch> drain = {});
/// Within this process.
core::result<core::run_record> run_once(const run_options& options, const run_inputs& inputs,
                                        const progress_function& on_progress);

} // namespace dualpath::apps

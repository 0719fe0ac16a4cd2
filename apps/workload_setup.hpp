// The trace a run replays: loaded, cut, scaled and given arrival times, as its options say.
#pragma once

#include "apps/options.hpp"
#include "core/result.hpp"
#include "core/workload/trace.hpp"

namespace dualpath::apps {

core::result<core::trace> prepare_trace(const run_options& options);

} // namespace dualpath::apps

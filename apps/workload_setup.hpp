// The trace a run replays: loaded, cut, scaled and given arrival times, as its options say.
#pragma once

#include "apps/options.hpp"
#include "core/result.hpp"
#include "core/workload/trace.hpp"

namespace dualpath::apps {

/// core::scale_tokens, refused where it would make a sequence longer than any trace may hold.
core::result<core::trace> scale_trace(core::trace t, double factor);

core::result<core::trace> prepare_trace(const run_options& options);

} // namespace dualpath::apps

#include "apps/workload_setup.hpp"

#include "apps/trace_io.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::apps {

core::result<core::trace> prepare_trace(const run_options& options) {
  trace_options load;
  load.seed = options.seed;
  if (options.agents != 0) load.trajectories = std::max(load.trajectories, options.agents);
  auto loaded = load_trace(options.trace, load);
  if (!loaded) return loaded.error();
  auto t = core::limit(std::move(*loaded), options.agents, options.max_rounds);
  if (options.scale_tokens != 1) t = core::scale_tokens(std::move(t), options.scale_tokens);
  for (auto& one : t.trajectories)
    for (auto& round : one.rounds) round.tool_ms *= options.tool_scale;
  return core::set_arrivals(std::move(t), options.arrival, options.seed);
}

} // namespace dualpath::apps

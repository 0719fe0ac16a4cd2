#include "apps/workload_setup.hpp"

#include "apps/trace_formats.hpp"
#include "apps/trace_io.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::apps {

core::result<core::trace> scale_trace(core::trace t, double factor) {
  if (factor == 1) return t;
  if (!(factor > 0))
    return core::error{core::errc::invalid_argument, "the factor on the lengths of a trace must be above 0"};
  auto longest = static_cast<double>(core::compute_stats(t).max_total) * factor;
  if (longest > static_cast<double>(max_sequence_tokens))
    return core::error{core::errc::invalid_argument,
                       "scaled by " + nlohmann::json(factor).dump() + ", the longest sequence of '" + t.name
                           + "' would pass the " + std::to_string(max_sequence_tokens)
                           + " tokens a sequence may have; use a smaller factor"};
  return core::scale_tokens(std::move(t), factor);
}

core::result<core::trace> prepare_trace(const run_options& options) {
  trace_options load;
  load.seed = options.seed;
  if (options.agents != 0) load.trajectories = std::max(load.trajectories, options.agents);
  auto loaded = load_trace(options.trace, load);
  if (!loaded) return loaded.error();
  auto scaled =
      scale_trace(core::limit(std::move(*loaded), options.agents, options.max_rounds), options.scale_tokens);
  if (!scaled) return scaled.error();
  for (auto& one : scaled->trajectories)
    for (auto& round : one.rounds) round.tool_ms *= options.tool_scale;
  return core::set_arrivals(std::move(*scaled), options.arrival, options.seed);
}

} // namespace dualpath::apps

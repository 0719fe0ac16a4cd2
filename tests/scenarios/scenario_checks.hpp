// What a scenario expects of its runs, by name; see README.md.
#pragma once

#include "scenario_run.hpp"

#include <span>

namespace dualpath::scenarios {

/// Catch2 assertions over a run; `earlier` are the runs before it.
void check_run(const run_spec& spec, const run_outcome& outcome, std::span<const run_outcome> earlier);
/// Over all runs: same label, same tokens.
void check_tokens(const scenario& test, std::span<const run_outcome> outcomes);

} // namespace dualpath::scenarios

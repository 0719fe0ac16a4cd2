// Executes the runs of a scenario through the library, as the program would, and keeps what came out.
#pragma once

#include "core/run_record.hpp"
#include "core/run_summary.hpp"
#include "scenario.hpp"
#include "scenario_store.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dualpath::scenarios {

struct run_outcome {
  std::string name, command_line;
  std::optional<core::error> failure;
  core::run_record record;
  core::run_summary summary;
  std::uint64_t rounds_expected = 0, tokens_expected = 0; ///< of the trace as replayed
  std::uint64_t faults_planned = 0;
  std::size_t blocks_before = 0, blocks_after = 0; ///< files in the store
  std::uint64_t store_bytes_after = 0;             ///< of those files
  std::vector<damaged_file> damaged;
};

/// Values of options may be "@store" (the scenario's folder) and "@least" (a pool that just holds the longest
/// request), or contain "@seed" (DUALPATH_SEED, or 1).
run_outcome execute(const run_spec& run, const scenario_store& store);

std::uint64_t scenario_seed();

} // namespace dualpath::scenarios

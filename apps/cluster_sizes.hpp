// How much memory each engine of an emulated cluster gets, where the user did not say: enough for the work at
// hand, within half of what the machine has free, never less than one longest request needs. Pure.
#pragma once

#include "apps/options.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "core/workload/trace.hpp"

#include <cstdint>

namespace dualpath::apps {

struct engine_sizes {
  std::uint32_t pe_slots = 0, de_slots = 0; ///< Full Blocks in the buffer pools
  std::uint32_t hbm_blocks = 0;             ///< Full Blocks of KV in decode
  std::uint64_t staging_bytes = 0;          ///< of PE HBM
};

/// Errors: invalid_argument, where a size given is too small for the longest request, or the machine is.
core::result<engine_sizes> choose_sizes(const run_options& options, const core::block_layout& layout,
                                        std::uint64_t slot_bytes, std::uint32_t staging_slots,
                                        std::uint32_t write_slots, const core::trace_stats& trace,
                                        std::uint64_t available_bytes);

/// Memory the machine can still give, from /proc/meminfo.
std::uint64_t available_memory_bytes();

} // namespace dualpath::apps

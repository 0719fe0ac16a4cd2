// Synthetic agent traces with the published means (spec §8): 32K, 48K and 64K are the longest context in
// tokens. Turns are log-normal, final lengths uniform up to the limit, and the first append is larger (a
// system prompt and a task), which is what the published mean context requires. Quantiles are stratified, so
// that few trajectories suffice to come close to the means.
#pragma once

#include "core/result.hpp"
#include "core/workload/trace.hpp"

#include <cstdint>
#include <string_view>

namespace dualpath::core {

/// The published means of one trace class; see trace_stats for what each is a mean of.
struct workload_profile {
  const char* name;
  std::uint32_t max_tokens;
  double turns, append, generate, total, context;
};

inline constexpr workload_profile workload_profiles[] = {
    {"32K", 32768, 60, 608, 148, 28639, 17183},
    {"48K", 49152, 106, 474, 172, 42607, 25120},
    {"64K", 65536, 157, 429, 176, 55958, 32721},
};

/// "32K", "48K" or "64K"; invalid_argument names the choices.
result<workload_profile> find_profile(std::string_view name);

/// The same arguments give the same trace.
trace generate_trace(const workload_profile& profile, std::uint32_t trajectories, std::uint64_t seed);

} // namespace dualpath::core

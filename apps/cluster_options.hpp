// Whether the options that describe a cluster fit each other: its size, who hosts engines, which machines
// have which role.
#pragma once

#include "apps/options.hpp"
#include "core/result.hpp"

#include <string>

namespace dualpath::apps {

/// `machine`: this one, on which the head runs. Errors: invalid_argument, in one sentence.
core::result<void> check_cluster_options(const run_options& options, const std::string& machine);

} // namespace dualpath::apps

// Runs a cluster over given devices: builds the actor system and the supervision tree, replays the trace and
// takes everything down again. The devices must outlive the call; it returns only when no actor uses them any
// more.
#pragma once

#include "actors/cluster_supervisor.hpp"
#include "core/result.hpp"
#include "core/run_record.hpp"

namespace dualpath::actors {

/// Blocks until the trace is served or the run has failed. The record has jct, rounds, nodes and the
/// counters.
core::result<core::run_record> run_cluster(std::shared_ptr<const cluster_plan> plan);

} // namespace dualpath::actors

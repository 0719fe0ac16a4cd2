// Runs a cluster over given devices: builds the supervision tree, has the nodes of other processes join in,
// replays the trace and takes everything down again. The devices must outlive the call; it returns only when
// no actor uses them any more.
#pragma once

#include "actors/cluster_supervisor.hpp"
#include "actors/control_plane.hpp"
#include "core/result.hpp"
#include "core/run_record.hpp"

namespace dualpath::actors {

/// Blocks until the trace is served or the run has failed. The record has jct, rounds, nodes, the counters
/// and warnings of lost nodes. One run at a time on a control plane.
core::result<core::run_record> run_cluster(control_plane& plane, std::shared_ptr<const cluster_plan> plan);
/// A cluster within this process.
core::result<core::run_record> run_cluster(std::shared_ptr<const cluster_plan> plan);

} // namespace dualpath::actors

// A block store whose reads and writes go wrong as a fault plan says; everything else is the store behind it.
// A faulty operation is still carried out, so that whoever uses memory too early is found out.
//   error: it fails with io. late: its completion is held back. lost: its completion never comes, as of a
//   device that hangs.
#pragma once

#include "core/clock.hpp"
#include "core/fault_plan.hpp"
#include "core/ids.hpp"
#include "storage/block_store.hpp"

#include <memory>

namespace dualpath::storage {

/// Reads count as those of a node of that role. The clock must outlive the store. `late_by` counts from the
/// completion of the operation.
std::shared_ptr<block_store> make_faulty_store(std::shared_ptr<block_store> inner, core::fault_plan plan,
                                               core::engine_role role, core::clock& clock,
                                               core::duration late_by);

} // namespace dualpath::storage

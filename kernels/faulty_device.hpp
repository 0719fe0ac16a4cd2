// A compute device whose computations and copies go wrong as a fault plan says; everything else is the device
// behind it. A faulty operation is still carried out, so that whoever uses memory too early is found out.
//   error: it fails with io. late: its completion is held back. lost: its completion never comes, as of a
//   device that hangs. Computations end in order, so what follows a late or lost one waits for it.
#pragma once

#include "core/clock.hpp"
#include "core/fault_plan.hpp"
#include "core/ids.hpp"
#include "kernels/compute.hpp"

#include <memory>

namespace dualpath::kernels {

struct lateness {
  core::duration computation{0}, copy{0}; ///< from the end of the operation
};

/// Operations count as those of an engine of that role. The clock must outlive the device.
std::shared_ptr<compute_device> make_faulty_device(std::shared_ptr<compute_device> inner,
                                                   core::fault_plan plan, core::engine_role role,
                                                   core::clock& clock, lateness late_by);

} // namespace dualpath::kernels

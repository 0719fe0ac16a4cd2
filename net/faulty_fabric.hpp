// A fabric whose puts and gets go wrong as a fault plan says; everything else is the fabric behind it. A
// faulty transfer still moves its bytes, so that whoever uses memory too early is found out.
//   error: it fails. late: its completion is held back beyond its deadline. lost: it ends as timed out, at
//   its deadline, as the contract of a fabric demands.
#pragma once

#include "core/clock.hpp"
#include "core/fault_plan.hpp"
#include "net/fabric.hpp"

#include <memory>

namespace dualpath::net {

/// The clock must outlive the fabric. `late_by` counts from the deadline.
std::shared_ptr<fabric> make_faulty_fabric(std::shared_ptr<fabric> inner, core::fault_plan plan,
                                           core::clock& clock, core::duration late_by);

} // namespace dualpath::net

// Page-aligned, zeroed host memory as a device's memory; pages are taken when first touched.
#pragma once

#include "kernels/compute.hpp"

#include <cstdint>
#include <memory>

namespace dualpath::kernels {

/// Errors: no_space, with the size.
core::result<std::unique_ptr<device_memory>> allocate_host_memory(std::uint64_t bytes);

} // namespace dualpath::kernels

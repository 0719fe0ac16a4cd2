// A compute device whose copies leave memory and come back to it through the NIC; everything else is the
// device behind it. A copy that touches memory the NIC does not know is left to the device.
#pragma once

#include "core/result.hpp"
#include "kernels/compute.hpp"
#include "net/verbs_copy.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace dualpath::apps {

/// Registers `memory`, which must outlive the device returned. Completions of copies run on a thread of
/// `copies`, whose errors they pass on. Errors: unsupported (memory that cannot be registered), with `inner`
/// as it was.
core::result<std::unique_ptr<kernels::compute_device>>
make_looped_device(std::unique_ptr<kernels::compute_device>& inner, std::unique_ptr<net::verbs_copy> copies,
                   std::span<const std::span<std::byte>> memory);

} // namespace dualpath::apps

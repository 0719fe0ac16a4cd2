// What the copies of an engine between host and device memory are made with, chosen once, when its devices
// are made: RDMA writes looped back through the NIC where there is one that reaches all of the memory (spec
// §6), else the compute device's own copies, cudaMemcpyAsync on a GPU and memcpy on a CPU.
#pragma once

#include "apps/options.hpp"
#include "core/result.hpp"
#include "kernels/compute.hpp"
#include "net/verbs_copy.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace dualpath::apps {

/// As net::open_verbs_copy(), which it is outside tests.
using verbs_opener =
    std::function<core::result<std::unique_ptr<net::verbs_copy>>(const net::verbs_copy_options&)>;

struct engine_copies {
  std::unique_ptr<kernels::compute_device> device; ///< the one given, or around it one that copies by the NIC
  std::string made_with;                           ///< "verbs on mlx5_0" or "the device"
  std::string reason;                              ///< why not verbs; "" where it is
};

/// Takes over `device`. `memory` is what will be copied from and to; it must outlive the device returned.
/// Copies to and from the network's KV class. Blocks briefly. Errors, only where `choice` insists on verbs:
/// those of open_verbs_copy() and verbs_copy::attach().
core::result<engine_copies> choose_copies(const copy_choice& choice, const core::qos_config& qos,
                                          std::unique_ptr<kernels::compute_device> device,
                                          std::span<const std::span<std::byte>> memory,
                                          const verbs_opener& open = net::open_verbs_copy);

} // namespace dualpath::apps

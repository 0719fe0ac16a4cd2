// What keeps traffic classes apart on the compute network of a run: virtual lanes of RDMA devices where they
// are set up, pacing in software everywhere else.
#pragma once

#include "apps/options.hpp"
#include "core/policy/qos.hpp"
#include "core/result.hpp"
#include "net/fabric.hpp"
#include "net/ucx_fabric.hpp"

#include <memory>
#include <span>

namespace dualpath::apps {

/// Of the thread that carries KV, beside those that carry collectives, with --pacing on: the CPU is what
/// lanes share there (see dualpath bench lanes).
inline constexpr int kv_niceness = 10;

/// Whether lanes are paced. auto: unless all bytes go over RDMA ports that fit the classes; `transports` as
/// UCX_TLS, where nothing said means that UCX may choose memory or TCP.
bool paces_lanes(pacing_mode mode, std::string_view transports, const core::qos_config& qos,
                 std::span<const core::port_report> ports);

/// Opens the fabric of one engine with its lanes kept apart. Errors: those of the fabric.
core::result<std::unique_ptr<net::fabric>> open_separated_fabric(const run_options& options,
                                                                 net::ucx_fabric_options fabric);

} // namespace dualpath::apps

#include "apps/lane_separation.hpp"

#include "net/lane_qos.hpp"
#include "net/paced_fabric.hpp"
#include "net/verbs_devices.hpp"

#include <algorithm>

namespace dualpath::apps {

namespace {

/// Names UCX has for what goes through RDMA devices; rc_v, rc_x and so on begin with one of them.
constexpr std::string_view rdma_transports[] = {"rc", "dc", "ud", "ib", "rdma"};

bool is_rdma(std::string_view transport) {
  auto family = transport.substr(0, transport.find('_'));
  return std::find(std::begin(rdma_transports), std::end(rdma_transports), family)
         != std::end(rdma_transports);
}

/// "self" carries nothing between engines.
bool only_rdma(std::string_view transports) {
  bool any = false;
  while (!transports.empty()) {
    auto comma = std::min(transports.find(','), transports.size());
    auto one = transports.substr(0, comma);
    transports.remove_prefix(std::min(comma + 1, transports.size()));
    if (one == "self") continue;
    if (!is_rdma(one)) return false;
    any = true;
  }
  return any;
}

} // namespace

bool paces_lanes(pacing_mode mode, std::string_view transports, const core::qos_config& qos,
                 std::span<const core::port_report> ports) {
  if (mode != pacing_mode::automatic) return mode == pacing_mode::on;
  if (!only_rdma(transports) || ports.empty()) return true;
  return std::any_of(ports.begin(), ports.end(),
                     [&](const auto& port) { return !core::qos_misfits(qos, port).empty(); });
}

core::result<std::unique_ptr<net::fabric>> open_separated_fabric(const run_options& options,
                                                                 net::ucx_fabric_options fabric) {
  auto listed = net::list_verbs_ports();
  auto ports = listed ? std::move(*listed) : std::vector<core::port_report>{};
  auto paced = paces_lanes(options.pacing, options.transports, options.qos, ports);
  fabric.lane_settings = net::lane_settings_for(options.qos, ports);
  // Only where asked for: beside engines that compute on the same CPU it would starve the KV they wait for.
  if (options.pacing == pacing_mode::on)
    fabric.niceness[static_cast<std::size_t>(net::lane::kv)] = kv_niceness;
  auto clock = fabric.clock;
  auto opened = net::open_ucx_fabric(std::move(fabric));
  if (!opened || !paced) return opened;
  net::pacing_options pacing;
  pacing.clock = clock;
  pacing.qos = options.qos;
  return net::pace_lanes(std::move(*opened), std::move(pacing));
}

} // namespace dualpath::apps

// Names for the traffic classes of the compute network that hardware understands (spec §6). The same tables
// pace the lanes in software, so that a switch, a NIC and the arbiter agree: model collectives get nearly all
// of the network, KV-cache the rest and whatever is idle.
//
// One number names a class everywhere: the lane of the arbiter, the virtual lane of InfiniBand, the priority
// and the traffic class of Ethernet. Pure functions; texts are complete files or shell commands.
#pragma once

#include "core/policy/arbiter.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dualpath::core {

struct traffic_class {
  std::string name; ///< of the fabric's lane; "other": whatever else uses the network
  lane_index lane = 0;
  std::uint8_t service_level = 0; ///< of InfiniBand, 0 to 15
  std::uint8_t dscp = 0;          ///< of RoCE v2, 0 to 63

  /// The byte in IP headers: DSCP, then two bits for congestion marks.
  std::uint8_t ip_traffic_class() const { return static_cast<std::uint8_t>(dscp << 2); }
};

/// The defaults are those of spec §6, where virtual lane 2 carries KV. DSCP n·8 is priority n on NICs as
/// delivered; service level 0 is what traffic has that asks for none.
struct qos_config {
  arbiter_tables tables;
  std::vector<traffic_class> classes{
      {"other", 0, 0, 0}, {"collective", 1, 1, 8}, {"kv", 2, 2, 16}, {"control", 3, 3, 24}};
};

/// Fails with invalid_argument, naming the class and the value, where classes are not numbered 0, 1, 2…, two
/// share a service level or DSCP, a value is out of range, there are more than the 8 of Ethernet, or
/// check_tables() does.
result<void> check_qos(const qos_config& config);
/// Nothing where no class has the name.
const traffic_class* find_class(const qos_config& config, std::string_view name);

/// The share of a link each class is sure of while all others wait too, in order of the classes; sums to 1.
/// 0: the class can starve.
std::vector<double> sure_shares(const qos_config& config);
/// The same in whole percent for Ethernet's ETS; at least 1 each, 100 together.
std::vector<unsigned> ets_percents(const qos_config& config);

/// Lines for opensm.conf.
std::string opensm_options(const qos_config& config);

/// What sets an Ethernet port.
enum class dcb_tool : std::uint8_t {
  mlnx_qos, ///< of NVIDIA's mlnx-tools, for ConnectX
  dcb,      ///< of iproute2, for any driver with DCB
  tc,       ///< queueing of the kernel, for Soft-RoCE; has shares but no flow control
};
struct roce_port {
  std::string interface;   ///< e.g. eth2
  std::string rdma_device; ///< e.g. mlx5_0
  dcb_tool tool = dcb_tool::mlnx_qos;
};
/// Commands for a shell that set DSCP, priorities, PFC and ETS of one port. The config has passed
/// check_qos().
std::string roce_commands(const qos_config& config, const roce_port& port);

enum class link_kind : std::uint8_t { infiniband, ethernet };

/// UCX settings that put a lane into its class, names without UCX_, as ucx_fabric_options::lane_settings
/// takes them.
std::vector<std::pair<std::string, std::string>> ucx_settings_of(const traffic_class& in, link_kind link);

/// What a port of an RDMA device says about itself.
struct port_report {
  std::string device; ///< e.g. mlx5_0
  unsigned port = 1;
  link_kind link = link_kind::ethernet;
  bool active = false;
  unsigned virtual_lanes = 1; ///< data lanes, of InfiniBand
  unsigned active_mtu_bytes = 0, most_mtu_bytes = 0;
  std::string rate;         ///< for people, e.g. "400 Gb/sec (4X NDR)"
  bool has_roce_v2 = false; ///< an address whose packets carry a DSCP
  unsigned forced_ip_traffic_class =
      0; ///< what the driver gives every packet, whatever a lane asks for; 0: nothing
};
/// One sentence for each thing that keeps the port from separating the classes; none where it fits.
std::vector<std::string> qos_misfits(const qos_config& config, const port_report& port);

} // namespace dualpath::core

#include "net/verbs_devices.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

namespace dualpath::net {
namespace {

using device_list = std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)>;
using open_device = std::unique_ptr<ibv_context, decltype(&ibv_close_device)>;

core::error cannot(const std::string& device, const std::string& what) {
  return {core::errc::io, "cannot " + what + " RDMA device " + device + ": " + std::strerror(errno)
                              + "; check the rights on /dev/infiniband"};
}

/// The one line of a file of sysfs; "" where it is missing.
std::string line_of(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

/// As ibv_query_port() encodes it.
unsigned lanes_of(std::uint8_t max_vl_num) {
  constexpr unsigned lanes[] = {1, 1, 2, 4, 8, 15};
  return lanes[std::min<std::size_t>(max_vl_num, std::size(lanes) - 1)];
}

unsigned bytes_of(ibv_mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

bool has_roce_v2(const std::string& folder, int addresses) {
  for (int i = 0; i < addresses; ++i)
    if (line_of(folder + "/gid_attrs/types/" + std::to_string(i)) == "RoCE v2") return true;
  return false;
}

/// The driver writes it as "Global tclass=106".
unsigned forced_class(const std::string& text) {
  auto digits = text.find_first_of("0123456789");
  return digits == std::string::npos
             ? 0
             : static_cast<unsigned>(std::strtoul(text.c_str() + digits, nullptr, 10));
}

core::port_report report(const std::string& device, std::uint8_t number, const ibv_port_attr& attributes) {
  auto folder = "/sys/class/infiniband/" + device;
  auto port_folder = folder + "/ports/" + std::to_string(number);
  core::port_report out;
  out.device = device;
  out.port = number;
  out.link = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? core::link_kind::ethernet
                                                              : core::link_kind::infiniband;
  out.active = attributes.state == IBV_PORT_ACTIVE;
  out.virtual_lanes = lanes_of(attributes.max_vl_num);
  out.active_mtu_bytes = bytes_of(attributes.active_mtu);
  out.most_mtu_bytes = bytes_of(attributes.max_mtu);
  out.rate = line_of(port_folder + "/rate");
  out.has_roce_v2 = has_roce_v2(port_folder, attributes.gid_tbl_len);
  out.forced_ip_traffic_class =
      forced_class(line_of(folder + "/tc/" + std::to_string(number) + "/traffic_class"));
  return out;
}

} // namespace

core::result<std::vector<core::port_report>> list_verbs_ports() {
  std::vector<core::port_report> ports;
  int count = 0;
  device_list devices{ibv_get_device_list(&count), ibv_free_device_list};
  // A kernel without RDMA is a machine without devices.
  for (int i = 0; devices && i < count; ++i) {
    std::string name = ibv_get_device_name(devices.get()[i]);
    open_device device{ibv_open_device(devices.get()[i]), ibv_close_device};
    if (!device) return cannot(name, "open");
    ibv_device_attr attributes{};
    if (int rc = ibv_query_device(device.get(), &attributes); rc != 0)
      return errno = rc, cannot(name, "query");
    for (std::uint8_t number = 1; number <= attributes.phys_port_cnt; ++number) {
      ibv_port_attr port{};
      if (int rc = ibv_query_port(device.get(), number, &port); rc != 0)
        return errno = rc, cannot(name, "query port " + std::to_string(number) + " of");
      ports.push_back(report(name, number, port));
    }
  }
  return ports;
}

} // namespace dualpath::net

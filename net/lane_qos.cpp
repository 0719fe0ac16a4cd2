#include "net/lane_qos.hpp"

#include <algorithm>

namespace dualpath::net {

lane_settings lane_settings_for(const core::qos_config& config, std::span<const core::port_report> ports) {
  lane_settings out;
  auto port = std::find_if(ports.begin(), ports.end(), [](auto& each) { return each.active; });
  if (port == ports.end()) return out;
  for (std::size_t i = 0; i < lane_count; ++i) {
    if (auto found = core::find_class(config, to_string(static_cast<lane>(i))))
      out[i] = core::ucx_settings_of(*found, port->link);
  }
  return out;
}

} // namespace dualpath::net

#include "net/lane_qos.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;

TEST_CASE("every lane gets the settings of its class, on the kind of network the machine has") {
  core::qos_config config;
  core::port_report port;
  port.active = true;
  port.link = core::link_kind::ethernet;
  auto at = [](const net::lane_settings& all, net::lane on) { return all[static_cast<std::size_t>(on)]; };
  auto ethernet = net::lane_settings_for(config, {&port, 1});
  port.link = core::link_kind::infiniband;
  auto infiniband = net::lane_settings_for(config, {&port, 1});
  for (auto on : {net::lane::collective, net::lane::kv, net::lane::control}) {
    auto found = core::find_class(config, net::to_string(on));
    REQUIRE(found != nullptr);
    CHECK(at(ethernet, on) == core::ucx_settings_of(*found, core::link_kind::ethernet));
    CHECK(at(infiniband, on) == core::ucx_settings_of(*found, core::link_kind::infiniband));
  }
  CHECK(at(infiniband, net::lane::kv) != at(infiniband, net::lane::collective));
}

TEST_CASE("lanes get no settings where no port is active") {
  core::port_report port;
  port.active = false;
  for (auto& each : net::lane_settings_for({}, {&port, 1})) CHECK(each.empty());
  for (auto& each : net::lane_settings_for({}, {})) CHECK(each.empty());
}

// What the RDMA side says on machines without RDMA; tests/net/rdma has the rest.
#include "net/verbs_copy.hpp"
#include "net/verbs_devices.hpp"
#include "world.hpp"

#include <algorithm>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

TEST_CASE("copies through the NIC are offered where a device has an active port, and refused with the reason "
          "elsewhere") {
  auto ports = list_verbs_ports();
  REQUIRE(ports);
  bool active = std::any_of(ports->begin(), ports->end(), [](auto& port) { return port.active; });
  auto copies = open_verbs_copy({});
  REQUIRE(copies.has_value() == active);
  if (!copies) CHECK(tells(copies.error(), core::errc::unsupported, "RDMA device"));
}

TEST_CASE("an RDMA device that is not there is refused by name") {
  auto copies = open_verbs_copy({.device = "mlx5_77"});
  REQUIRE_FALSE(copies);
  CHECK(tells(copies.error(), core::errc::invalid_argument, "mlx5_77"));
}

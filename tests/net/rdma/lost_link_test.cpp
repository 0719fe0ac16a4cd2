// What a NIC still has to do when the network goes away, and when it may not do it any more.
#include "tests/net/world.hpp"

#include <algorithm>
#include <cstdlib>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

void run(const std::string& command) { REQUIRE(std::system(command.c_str()) == 0); }

/// Two fabrics on a device each. The cable between those is cut by sending to an address that nobody has.
struct cut_cable {
  cut_cable() {
    setenv("DUALPATH_TEST_DEVICES", "rxe0:1,rxe1:1", 0);
    around = make_world("rc_v");
    pair.emplace(*around, region_bytes);
  }
  ~cut_cable() { mend(); }
  void cut() {
    run("ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent");
    run("ip neigh replace 10.77.0.1 lladdr 02:00:00:00:00:99 dev eth1 nud permanent");
  }
  void mend() {
    run("ip neigh replace 10.77.0.2 lladdr $(cat /sys/class/net/eth1/address) dev eth0 nud permanent");
    run("ip neigh replace 10.77.0.1 lladdr $(cat /sys/class/net/eth0/address) dev eth1 nud permanent");
  }

  static constexpr std::uint64_t region_bytes = 32 << 20;
  std::unique_ptr<world> around;
  std::optional<pair_of_fabrics> pair;
};

std::vector<strided_piece> rows(std::uint32_t count) { return {{0, 16384, 0, 16384, 8192, count}}; }

} // namespace

TEST_CASE("a fabric that closes while the network is gone has ended every transfer once") {
  cut_cable cable;
  auto& pair = *cable.pair;
  REQUIRE_FALSE(get(*cable.around, *pair.a, pair.from_a(rows(2))));
  outcome<ending> ends;
  constexpr std::size_t each = 12;
  for (std::size_t i = 0; i < each; ++i) {
    pair.a->get(pair.from_a(rows(300)), into(ends));
    pair.a->put(pair.from_a(rows(300)), into(ends));
    pair.b->get(pair.from_b(rows(300)), into(ends));
  }
  cable.cut();
  pair.a.reset();
  pair.b.reset();
  CHECK(ends.count() == 3 * each);
}

TEST_CASE("what a get reads stays untouched after it was told to have failed, whatever the network does") {
  cut_cable cable;
  auto& pair = *cable.pair;
  std::fill(pair.b_memory.bytes.begin(), pair.b_memory.bytes.end(), std::byte{0x5b});
  REQUIRE_FALSE(get(*cable.around, *pair.a, pair.from_a(rows(2))));
  outcome<ending> ends;
  constexpr std::size_t count = 12;
  for (std::size_t i = 0; i < count; ++i) {
    auto slow = pair.from_a(rows(300));
    slow.deadline = cable.around->clock().now() + 500ms;
    pair.a->get(std::move(slow), into(ends));
  }
  cable.cut();
  REQUIRE(ends.wait_for(count, 60s * patience()));
  std::fill(pair.a_memory.bytes.begin(), pair.a_memory.bytes.end(), std::byte{0xa5});
  cable.mend();
  // Once a later get is through, what the NIC still had to do before would have been done.
  REQUIRE(connect(*cable.around, *pair.a, *pair.b));
  auto last = pair.from_a({{cable.region_bytes - 4096, 0, 0, 0, 4096, 1}});
  REQUIRE_FALSE(get(*cable.around, *pair.a, std::move(last)));
  auto untouched = pair.a_memory.bytes.first(cable.region_bytes - 4096);
  CHECK(std::count(untouched.begin(), untouched.end(), std::byte{0xa5}) == std::ptrdiff_t(untouched.size()));
}

// What the simulated fabric promises beyond the contract: modelled time, seeded faults, deaths.
#include "world.hpp"

#include "net/sim_fabric.hpp"

#include <cmath>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

/// A pair over a network whose options the test chooses.
struct simulated_pair final : world {
  explicit simulated_pair(sim_network_options options) : network{with_clock(options)} {}
  sim_network_options with_clock(sim_network_options options) {
    options.clock = &time;
    return options;
  }
  std::unique_ptr<fabric> open(const identity& self) override { return network.open(self); }
  core::clock& clock() override { return time; }
  bool let_run(const std::function<bool(std::chrono::milliseconds)>& reached) override {
    for (auto end = time.now() + 60s; time.now() < end; time.advance(10us)) {
      if (reached(0ms)) return true;
    }
    return reached(0ms);
  }

  core::manual_clock time;
  sim_network network;
};

constexpr std::uint64_t mib = 1 << 20;

} // namespace

TEST_CASE(
    "a simulated transfer takes its bytes over the bandwidth plus the latency, and transfers share a side") {
  sim_network_options options;
  options.bytes_per_second = 1e9;
  options.latency = 100us;
  simulated_pair world{options};
  pair_of_fabrics pair{world, 16 * mib};
  outcome<ending> ends;
  auto begin = world.time.now();
  auto expected = core::from_seconds(static_cast<double>(8 * mib) / 1e9) + 100us;
  pair.a->put(pair.from_a({{0, 0, 0, 0, 8 * mib, 1}}), into(ends));
  pair.a->put(pair.from_a({{0, 0, 0, 0, 8 * mib, 1}}), into(ends));
  world.time.advance(expected - 1us);
  CHECK(ends.count() == 0);
  world.time.advance(2us);
  CHECK(ends.count() == 1);
  world.await(ends, 2);
  CHECK(world.time.now() - begin >= 2 * expected - 200us);
}

TEST_CASE("simulated faults are drawn from the seed: the same seed, the same endings") {
  auto run = [](std::uint64_t chosen) {
    sim_network_options options;
    options.seed = chosen;
    simulated_pair world{options};
    pair_of_fabrics pair{world, 16 * mib};
    world.network.set_faults({.drop = 0.2, .fail = 0.2, .delay = 0.3});
    std::vector<outcome<ending>> ends(200);
    auto t = pair.from_a({{0, 0, 0, 0, 4096, 1}});
    t.deadline = world.time.now() + 50ms;
    for (auto& end : ends) pair.a->put(t, into(end));
    std::string story;
    for (auto& end : ends) {
      auto how = world.await(end)[0];
      story += !how ? 'd' : how->code == core::errc::timed_out ? 't' : 'f';
      CHECK(end.count() == 1);
    }
    return story;
  };
  auto first = run(5);
  CHECK(run(5) == first);
  CHECK(run(6) != first);
  for (auto kind : {'d', 't', 'f'}) CHECK(first.find(kind) != std::string::npos);
}

TEST_CASE("a transfer that timed out in the simulation never touches memory") {
  sim_network_options options;
  options.bytes_per_second = 1e9;
  simulated_pair world{options};
  pair_of_fabrics pair{world, 16 * mib};
  auto t = pair.from_a({{0, 0, 0, 0, 8 * mib, 1}});
  t.deadline = world.time.now() + 1ms;
  pair.a_memory.bytes[0] = std::byte{1};
  auto end = put(world, *pair.a, t);
  REQUIRE(end);
  CHECK(end->code == core::errc::timed_out);
  world.time.advance(1s);
  CHECK(pair.b_memory.bytes[0] == std::byte{0});
}

TEST_CASE(
    "killing a simulated peer fails what is in flight after the time of detection; a paused one goes on") {
  sim_network_options options;
  options.bytes_per_second = 1e9;
  options.detection = 5ms;
  simulated_pair world{options};
  pair_of_fabrics pair{world, 16 * mib};
  world.network.pause(engine(2).instance, true);
  auto t = pair.from_a({{0, 0, 0, 0, 4096, 1}});
  t.deadline = world.time.now() + 10ms;
  auto end = put(world, *pair.a, t);
  REQUIRE(end);
  CHECK(end->code == core::errc::timed_out);
  world.network.pause(engine(2).instance, false);
  CHECK_FALSE(put(world, *pair.a, pair.from_a({{0, 0, 0, 0, 4096, 1}})));

  outcome<std::string> downs;
  pair.a->on_peer_down([downs](peer_id, std::string why) mutable { downs.set(why); });
  outcome<ending> ends, own;
  pair.a->put(pair.from_a({{0, 0, 0, 0, 16 * mib, 1}}), into(ends));
  pair.b->put(pair.from_b({{0, 0, 0, 0, 16 * mib, 1}}), into(own));
  world.network.kill(engine(2).instance);
  world.time.advance(4ms);
  CHECK(ends.count() == 0);
  CHECK(world.await(own)[0]->code == core::errc::disconnected);
  world.time.advance(2ms);
  REQUIRE(ends.count() == 1);
  CHECK(ends.values()[0]->code == core::errc::disconnected);
  CHECK(downs.values() == std::vector<std::string>{"engine 2 died"});
}

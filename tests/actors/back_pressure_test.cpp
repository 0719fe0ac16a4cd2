// Requests that wait at their owner, so that no peer piles them up.
#include "actors/replayer.hpp"
#include "scheduled_cluster.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using cluster = dualpath::actors::testing::scheduled_cluster;
using dualpath::actors::testing::actor_world;
using dualpath::actors::testing::hit_blocks;
using dualpath::actors::testing::peer;

namespace {

/// With room for one request in flight to each node.
struct bounded_cluster : cluster {
  explicit bounded_cluster(core::flight_peaks* peaks = nullptr) {
    settings->control_in_flight_bytes = 1;
    settings->flights = peaks;
    start();
    up(0);
    up(2);
  }
};

} // namespace

TEST_CASE("without a bound in the way a node is given all requests it may have", "[back_pressure]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  c.submit(2);
  CHECK(c.work_of(0));
  CHECK(c.work_of(0));
}

TEST_CASE("a node over its bound is given nothing until it answers, whatever the answer", "[back_pressure]") {
  auto how = GENERATE(0, 1, 2, 3);
  INFO("answer " << how);
  bounded_cluster c;
  c.submit(1);
  c.submit(2);
  auto first = c.work_of(0);
  REQUIRE(first);
  CHECK_FALSE(c.work_of(0));
  if (how == 0) c.from(0, proto::part_read{first->id, first->epoch, core::engine_role::prefill});
  if (how == 1) c.from(0, proto::hits_read{first->id, first->epoch, hit_blocks});
  if (how == 2) c.from(0, proto::handed_over{first->id, first->epoch});
  if (how == 3)
    c.from(0,
           proto::request_failed{first->id, first->epoch, proto::outcome::failure(core::errc::io, "test")});
  auto next = c.work_of(0);
  REQUIRE(next);
  if (how < 3) CHECK(next->id == core::request_id{2});
}

TEST_CASE("what a node over its bound cannot be given goes to another node", "[back_pressure]") {
  bounded_cluster c;
  c.up(1);
  c.submit(1);
  c.submit(2);
  auto first = c.work_of(0);
  REQUIRE(first);
  auto second = c.work_of(1);
  REQUIRE(second);
  CHECK(first->id != second->id);
}

TEST_CASE("a node that dies with requests in flight gives its credit back with them", "[back_pressure]") {
  bounded_cluster c;
  c.submit(1);
  REQUIRE(c.work_of(0));
  c.down(0);
  c.up(0, 1);
  c.answer(2, *c.abandon_at(2));
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->attempt == 2);
}

TEST_CASE("orders reach a node that is over its bound", "[back_pressure]") {
  bounded_cluster c;
  c.submit(1);
  REQUIRE(c.work_of(0));
  c.down(2);
  CHECK(c.abandon_at(0));
}

TEST_CASE("the peak of a node is what it was given at most and had not answered to", "[back_pressure]") {
  core::flight_peaks peaks;
  bounded_cluster c{&peaks};
  for (std::uint64_t id = 1; id <= 5; ++id) c.submit(id);
  std::uint64_t largest = 0;
  for (int i = 0; i < 5; ++i) {
    auto work = c.work_of(0);
    REQUIRE(work);
    largest = std::max(largest, proto::wire_bytes(*work));
    c.from(0, proto::handed_over{work->id, work->epoch});
  }
  CHECK(peaks.all() == std::map<core::node_id, std::uint64_t>{{core::node_id{0}, largest}});
}

TEST_CASE("a client submits no more than the bound before the scheduler has accepted what it has",
          "[back_pressure]") {
  actor_world world;
  world.settings->control_in_flight_bytes = 1;
  core::trace trace;
  for (const char* name : {"a", "b", "c"}) {
    core::round_spec round;
    round.append_tokens = 8;
    round.generate_tokens = 2;
    trace.trajectories.push_back({name, 0, {round}});
  }
  replay_options options;
  options.trace = std::make_shared<const core::trace>(std::move(trace));
  options.vocabulary = 100;
  peer scheduler{world.system};
  std::optional<core::result<replay_result>> result;
  auto client = world.system.spawn(
      replayer, settings_ptr{world.settings}, scheduler.as<proto::scheduler_actor>(), options,
      replay_done{[&](core::result<replay_result> r) { result.emplace(std::move(r)); }});
  world.advance(core::duration{1});
  std::vector<core::request_id> submitted;
  std::uint64_t largest = 0;
  for (int i = 0; i < 3; ++i) {
    auto round = scheduler.next<proto::submit>();
    REQUIRE(round);
    submitted.push_back(round->request.id);
    largest = std::max(largest, proto::wire_bytes(round->request));
    CHECK_FALSE(scheduler.next<proto::submit>());
    // Tokens say as much as an acceptance, which may be lost.
    if (i == 1)
      scheduler.send(client, proto::tokens{submitted.back(), 0, {1}});
    else
      scheduler.send(client, proto::accepted{submitted.back()});
    world.run();
  }
  CHECK_FALSE(scheduler.next<proto::submit>());
  for (auto id : submitted) {
    scheduler.send(client, proto::tokens{id, 0, {1, 2}});
    scheduler.send(client, proto::round_done{id, {}, 0, 1});
    world.run();
  }
  REQUIRE(result);
  REQUIRE(*result);
  CHECK((**result).peak_in_flight_bytes == largest);
}

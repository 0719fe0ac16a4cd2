#include "actors/replayer.hpp"

#include "actor_world.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using dualpath::actors::testing::actor_world;
using dualpath::actors::testing::peer;

namespace {

/// A replayer in front of a scheduler that the test plays. Two sessions of three rounds, the second of which
/// arrives after a second; every round generates two tokens.
struct replay : actor_world {
  replay() {
    auto trace = std::make_shared<core::trace>();
    for (int n = 0; n < 2; ++n) {
      core::trajectory one;
      one.session = "session " + std::to_string(n);
      one.arrival_ms = n * 1000;
      for (int round = 0; round < 3; ++round) {
        core::round_spec spec;
        spec.append_tokens = 8;
        spec.generate_tokens = 2;
        one.rounds.push_back(spec);
      }
      trace->trajectories.push_back(std::move(one));
    }
    options.trace = std::move(trace);
    options.vocabulary = 100;
    options.drain = drain;
  }
  void start() {
    client =
        system.spawn(replayer, settings_ptr{settings}, scheduler.as<proto::scheduler_actor>(), options,
                     replay_done{[this](core::result<replay_result> r) { results.push_back(std::move(r)); }});
    advance(std::chrono::milliseconds{5}); // the first session arrives
  }
  void serve(const proto::request& request) {
    scheduler.send(client, proto::tokens{request.id, 0, {1, 2}});
    scheduler.send(client, proto::round_done{request.id, {}, 0, 1});
    run();
  }
  std::optional<proto::request> submitted() {
    auto round = scheduler.next<proto::submit>();
    if (!round) return std::nullopt;
    return round->request;
  }

  peer scheduler{system};
  std::shared_ptr<core::drain_switch> drain = std::make_shared<core::drain_switch>();
  replay_options options;
  proto::client_actor client;
  std::vector<core::result<replay_result>> results;
};

} // namespace

TEST_CASE("a replay that is not drained serves every round", "[replayer]") {
  replay r;
  r.start();
  r.advance(std::chrono::seconds{2});
  for (int round = 0; round < 6; ++round) {
    auto next = r.submitted();
    REQUIRE(next);
    r.serve(*next);
  }
  REQUIRE(r.results.size() == 1);
  CHECK((*r.results[0]).rounds.size() == 6);
  CHECK((*r.results[0]).rounds_planned == 6);
}

TEST_CASE("a drained replay finishes the rounds under way, submits no other and reports what was done",
          "[replayer]") {
  replay r;
  r.start();
  auto first = r.submitted();
  REQUIRE(first);
  r.serve(*first);
  auto under_way = r.submitted();
  REQUIRE(under_way);
  CHECK(under_way->round == 1);
  r.drain->request();
  r.run();
  CHECK(r.results.empty());
  r.advance(std::chrono::seconds{2}); // the second session would arrive
  CHECK_FALSE(r.submitted());
  r.serve(*under_way);
  CHECK_FALSE(r.submitted());
  REQUIRE(r.results.size() == 1);
  REQUIRE(r.results[0]);
  CHECK((*r.results[0]).rounds.size() == 2);
  CHECK((*r.results[0]).rounds_planned == 6);
}

TEST_CASE("a replay that is drained before it starts ends at once", "[replayer]") {
  replay r;
  r.drain->request();
  r.start();
  CHECK_FALSE(r.submitted());
  REQUIRE(r.results.size() == 1);
  REQUIRE(r.results[0]);
  CHECK((*r.results[0]).rounds.empty());
  CHECK((*r.results[0]).rounds_planned == 6);
}

TEST_CASE("a round that is interrupted while the replay drains is submitted again", "[replayer]") {
  replay r;
  r.start();
  auto under_way = r.submitted();
  REQUIRE(under_way);
  r.drain->request();
  r.run();
  r.scheduler.send(r.client, proto::interrupted{under_way->id});
  r.run();
  auto again = r.submitted();
  REQUIRE(again);
  CHECK(again->id == under_way->id);
  r.serve(*again);
  REQUIRE(r.results.size() == 1);
  CHECK((*r.results[0]).rounds.size() == 1);
}

TEST_CASE("a replay whose cluster awaits nodes does not take the silence for a stall", "[replayer]") {
  auto told = GENERATE(true, false);
  replay r;
  r.options.stall_limit = std::chrono::seconds{10};
  r.start();
  for (int second = 0; second < 30; second += 5) {
    if (told) r.scheduler.send(r.client, proto::nodes_awaited{"test", false});
    r.advance(std::chrono::seconds{5});
  }
  CHECK(r.results.empty() == told);
  r.scheduler.send(r.client, proto::nodes_awaited{"test", true});
  r.run();
  REQUIRE(r.results.size() == 1);
  if (!told) CHECK_THAT(r.results[0].error().text, Catch::Contains("nothing arrived"));
}

TEST_CASE("a replay that is given up ends with the reason and how far it came", "[replayer]") {
  replay r;
  r.start();
  r.serve(*r.submitted());
  r.scheduler.send(r.client, proto::nodes_awaited{"no decode node is left", true});
  r.run();
  REQUIRE(r.results.size() == 1);
  REQUIRE_FALSE(r.results[0]);
  CHECK(r.results[0].error().code == core::errc::disconnected);
  CHECK(r.results[0].error().text == "no decode node is left; 1 of 6 rounds are done");
}

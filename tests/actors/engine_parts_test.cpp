// Buffer pool and replayer: what they promise to the actors around them.
#include "actor_world.hpp"
#include "actors/buffer_pool.hpp"
#include "actors/replayer.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using dualpath::actors::testing::actor_world;
using dualpath::actors::testing::peer;

namespace {

using slot_list = std::vector<std::uint32_t>;

struct replay : actor_world {
  explicit replay(std::vector<core::round_spec> rounds) {
    core::trace trace;
    trace.trajectories.push_back({"agent", 0, std::move(rounds)});
    options.trace = std::make_shared<const core::trace>(std::move(trace));
    options.vocabulary = 100;
    client =
        system.spawn(replayer, settings_ptr{settings}, scheduler.as<proto::scheduler_actor>(), options,
                     replay_done{[this](core::result<replay_result> r) { result.emplace(std::move(r)); }});
    advance(core::duration{1});
  }
  ~replay() {
    // Its watchdog goes off for ever, and the system ends only when no timer is left.
    caf::anon_send_exit(client, caf::exit_reason::kill);
    run();
  }
  void tokens(core::request_id request, std::uint32_t first_index, std::vector<core::token_id> ids) {
    scheduler.send(client, proto::tokens{request, first_index, std::move(ids)});
    run();
  }
  void done(core::request_id request, std::uint32_t attempts = 1) {
    proto::round_done event;
    event.request = request;
    event.attempts = attempts;
    scheduler.send(client, event);
    run();
  }
  void interrupt(core::request_id request) {
    scheduler.send(client, proto::interrupted{request});
    run();
  }
  std::optional<proto::request> submitted() {
    auto message = scheduler.next<proto::submit>();
    if (!message) return std::nullopt;
    return message->request;
  }

  peer scheduler{system};
  replay_options options;
  std::optional<core::result<replay_result>> result;
  proto::client_actor client;
};

core::round_spec round_of(std::uint32_t append, std::uint32_t generate) {
  core::round_spec spec;
  spec.append_tokens = append;
  spec.generate_tokens = generate;
  return spec;
}

} // namespace

TEST_CASE("a pool grants all slots of a request at once, first come first served", "[buffer_pool]") {
  actor_world world;
  auto pool = world.system.spawn(buffer_pool, 4u, nullptr);
  peer first{world.system}, second{world.system}, third{world.system};
  first.send(pool, proto::grant_slots{core::request_id{1}, 3});
  second.send(pool, proto::grant_slots{core::request_id{2}, 2});
  third.send(pool, proto::grant_slots{core::request_id{3}, 1});
  world.run();
  auto granted = first.next<proto::granted_slots>();
  REQUIRE(granted);
  CHECK(granted->slots == slot_list{0, 1, 2});
  CHECK_FALSE(second.next<proto::granted_slots>());
  // One slot is free, but not for who came later.
  CHECK_FALSE(third.next<proto::granted_slots>());
  first.send(pool, proto::release_slots{{1}});
  world.run();
  CHECK(second.next<proto::granted_slots>()->slots == slot_list{1, 3});
  CHECK_FALSE(third.next<proto::granted_slots>());
  first.send(pool, proto::release_slots{{2, 0}});
  world.run();
  CHECK(third.next<proto::granted_slots>()->slots == slot_list{0});
}

TEST_CASE("a request larger than the pool is told so at once, and nobody waits behind it", "[buffer_pool]") {
  actor_world world;
  auto pool = world.system.spawn(buffer_pool, 4u, nullptr);
  peer large{world.system}, small{world.system};
  large.send(pool, proto::grant_slots{core::request_id{1}, 5});
  small.send(pool, proto::grant_slots{core::request_id{2}, 4});
  world.run();
  auto refused = large.next<proto::granted_slots>();
  REQUIRE(refused);
  CHECK_FALSE(refused->status.ok);
  CHECK(refused->status.code == core::errc::invalid_argument);
  CHECK_THAT(refused->status.text, Catch::Contains("5") && Catch::Contains("4"));
  CHECK(small.next<proto::granted_slots>()->status.ok);
}

TEST_CASE("tokens that arrive again are dropped, wherever the repeat begins", "[replayer]") {
  replay r{{round_of(6, 4)}};
  auto request = r.submitted();
  REQUIRE(request);
  r.tokens(request->id, 0, {11});
  r.tokens(request->id, 0, {11, 12});
  r.tokens(request->id, 1, {12});
  r.tokens(request->id, 1, {12, 13, 14});
  r.done(request->id);
  REQUIRE(r.result);
  REQUIRE(*r.result);
  CHECK((*r.result)->rounds.front().generated == std::vector<core::token_id>{11, 12, 13, 14});
}

TEST_CASE("an interrupted round is submitted again with the tokens that have arrived", "[replayer]") {
  replay r{{round_of(6, 4)}};
  auto request = r.submitted();
  REQUIRE(request);
  r.tokens(request->id, 0, {11});
  r.tokens(request->id, 1, {12});
  r.interrupt(request->id);
  auto again = r.submitted();
  REQUIRE(again);
  CHECK(again->id == request->id);
  CHECK(again->delivered_tokens == 2);
  CHECK(again->generate_tokens == 4);
  auto context = request->context.appended(std::vector<core::token_id>{11, 12});
  CHECK(again->context == context);
  CHECK(again->keys == core::key_chain(r.settings->fingerprint, context, r.settings->layout.block_tokens));
  CHECK(again->total_tokens() == request->total_tokens());
  CHECK(again->sampling_seed == request->sampling_seed);
  // A second interruption starts from the prompt as well, not from the context of the first.
  r.tokens(request->id, 2, {13});
  r.interrupt(request->id);
  context = context.appended(std::vector<core::token_id>{13});
  CHECK(r.submitted()->context == context);
}

TEST_CASE("where only the end of a round was lost, its last token is asked for again", "[replayer]") {
  replay r{{round_of(6, 3)}};
  auto request = r.submitted();
  REQUIRE(request);
  r.tokens(request->id, 0, {11, 12, 13});
  r.interrupt(request->id);
  auto again = r.submitted();
  REQUIRE(again);
  CHECK(again->delivered_tokens == 2);
  r.tokens(request->id, 2, {13});
  r.done(request->id);
  REQUIRE(r.result);
  REQUIRE(*r.result);
  CHECK((*r.result)->rounds.front().generated == std::vector<core::token_id>{11, 12, 13});
}

TEST_CASE("the prompt of a round is all that was appended and generated before", "[replayer]") {
  replay r{{round_of(6, 2), round_of(3, 1)}};
  auto first = r.submitted();
  REQUIRE(first);
  CHECK(first->context.size() == 6);
  r.tokens(first->id, 0, {11, 12});
  r.done(first->id);
  auto second = r.submitted();
  REQUIRE(second);
  CHECK(second->id != first->id);
  REQUIRE(second->context.size() == 11);
  auto expected = first->context.appended(std::vector<core::token_id>{11, 12});
  CHECK(std::equal(expected.begin(), expected.end(), second->context.begin()));
  // What belongs to a round that is over changes nothing.
  r.tokens(first->id, 2, {13});
  r.interrupt(first->id);
  r.done(first->id);
  CHECK_FALSE(r.submitted());
  CHECK_FALSE(r.result);
}

TEST_CASE("a round that ends short of tokens is asked for from where it stands", "[replayer]") {
  replay r{{round_of(6, 3)}};
  auto request = r.submitted();
  REQUIRE(request);
  r.tokens(request->id, 0, {11});
  r.tokens(request->id, 2, {13}); // 12 was lost
  r.done(request->id);
  auto again = r.submitted();
  REQUIRE(again);
  CHECK(again->id == request->id);
  CHECK(again->delivered_tokens == 1);
  CHECK(again->attempt == 2);
  r.tokens(request->id, 1, {12});
  r.tokens(request->id, 2, {13});
  r.done(request->id);
  REQUIRE(r.result);
  REQUIRE(*r.result);
  CHECK((*r.result)->rounds.front().generated == std::vector<core::token_id>{11, 12, 13});
}

TEST_CASE("a round that is silent for long is submitted again, in case that its end was lost", "[replayer]") {
  replay r{{round_of(6, 3)}};
  auto request = r.submitted();
  REQUIRE(request);
  r.tokens(request->id, 0, {11, 12, 13});
  r.advance(r.settings->deadline);
  CHECK_FALSE(r.submitted());
  r.advance(2 * r.settings->deadline);
  auto again = r.submitted();
  REQUIRE(again);
  CHECK(again->delivered_tokens == 2);
}

TEST_CASE("a client interrupted in a round that it has all of says so", "[replayer]") {
  replay r{{round_of(6, 1)}};
  auto request = r.submitted();
  REQUIRE(request);
  r.tokens(request->id, 0, {11});
  r.scheduler.send(r.client, proto::interrupted{core::request_id{request->id.value + 1}});
  r.run();
  auto over = r.scheduler.next<proto::withdrawn>();
  REQUIRE(over);
  CHECK(over->request.value == request->id.value + 1);
}

TEST_CASE("a round that ends short of tokens every time fails the run by name", "[replayer]") {
  replay r{{round_of(6, 3)}};
  auto request = r.submitted();
  REQUIRE(request);
  r.tokens(request->id, 0, {11});
  r.done(request->id, 8);
  REQUIRE(r.result);
  REQUIRE_FALSE(*r.result);
  CHECK_THAT(r.result->error().text, Catch::Contains("agent") && Catch::Contains("1 of 3"));
}

TEST_CASE("a run in which nothing arrives any more fails rather than hangs", "[replayer]") {
  replay r{{round_of(6, 3)}};
  REQUIRE(r.submitted());
  for (int second = 0; second < 200 && !r.result; ++second) r.advance(std::chrono::seconds{1});
  REQUIRE(r.result);
  REQUIRE_FALSE(*r.result);
  CHECK(r.result->error().code == core::errc::timed_out);
}

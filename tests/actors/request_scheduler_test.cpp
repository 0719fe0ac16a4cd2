#include "scheduled_cluster.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace dualpath;
using namespace dualpath::actors;
using cluster = dualpath::actors::testing::scheduled_cluster;
using dualpath::actors::testing::hit_blocks;

TEST_CASE("a request is handed to its prefill engine once both sides are chosen", "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  c.fetch(0);
  CHECK_FALSE(c.engines[0]->next<proto::prefill_work>());
  c.fetch(2);
  auto work = c.engines[0]->next<proto::prefill_work>();
  REQUIRE(work);
  CHECK(work->request.decode == core::engine_id{2});
  CHECK(work->request.hits == core::read_split{0, hit_blocks});
  CHECK(work->request.attempt == 1);
}

TEST_CASE("a decode engine that dies before decode comes back only when the prefill engine has let go",
          "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.engines[0]->drop_all<proto::engine_up>();
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  c.down(2);
  CHECK(c.engines[0]->next<proto::engine_down>());
  auto order = c.abandon_at(0);
  REQUIRE(order);
  CHECK(order->epoch == work->epoch);
  c.up(2, 1);
  // Transfers into its memory may still be under way.
  CHECK_FALSE(c.engines[0]->next<proto::engine_up>());
  CHECK_FALSE(c.work_of(0));
  c.answer(0, *order);
  auto back = c.engines[0]->next<proto::engine_up>();
  REQUIRE(back);
  CHECK(back->incarnation == core::incarnation{1});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->attempt == 2);
  CHECK(again->epoch > work->epoch);
}

TEST_CASE("the landing of a dead prefill engine is given up only when the engine is back, and so is fenced",
          "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  c.down(0);
  CHECK_FALSE(c.abandon_at(2));
  CHECK_FALSE(c.work_of(0));
  c.up(0, 1);
  auto order = c.abandon_at(2);
  REQUIRE(order);
  CHECK(order->epoch == work->epoch);
  CHECK_FALSE(c.work_of(0));
  c.answer(2, *order);
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->attempt == 2);
}

TEST_CASE("a request whose two engines are down at once is routed again when both are back",
          "[request_scheduler]") {
  auto first = GENERATE(0u, 2u);
  auto back_first = GENERATE(0u, 2u);
  // The prefill engine may have let go of the request before it died.
  auto answered = GENERATE(true, false);
  INFO("engine " << first << " dies first, engine " << back_first << " is back first, abandon answered "
                 << answered);
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  c.down(first);
  auto order = c.abandon_at(0);
  if (order && answered) c.answer(0, *order);
  c.down(2 - first);
  for (auto engine : {back_first, 2 - back_first}) {
    c.up(engine, 1);
    for (std::uint32_t each : {0, 2}) {
      // Only what a living engine is asked is answered.
      auto asked = c.abandon_at(each);
      if (asked) c.answer(each, *asked);
    }
  }
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->attempt == 2);
  CHECK(again->decode == core::engine_id{2});
}

TEST_CASE("what carries an epoch that is over changes nothing", "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  auto old = c.work_of(0);
  REQUIRE(old);
  c.down(0);
  c.up(0, 1);
  c.answer(2, *c.abandon_at(2));
  auto current = c.work_of(0);
  REQUIRE(current);
  auto old_decode = core::decode_epoch(old->epoch);
  c.from(0, proto::hits_read{old->id, old->epoch, 0});
  c.from(0, proto::handed_over{old->id, old->epoch});
  c.from(2, proto::request_finished{old->id, old_decode});
  c.from(0, proto::request_failed{old->id, old->epoch, proto::outcome::failure(core::errc::io, "late")});
  c.from(2, proto::request_failed{old->id, old_decode, proto::outcome::failure(core::errc::io, "late")});
  CHECK_FALSE(c.work_of(0));
  CHECK_FALSE(c.client.next<proto::interrupted>());
  // It is still in prefill under its new epoch.
  c.down(2);
  auto order = c.abandon_at(0);
  REQUIRE(order);
  CHECK(order->epoch == current->epoch);
}

TEST_CASE("an answer to an order of an earlier attempt does not disturb the present one",
          "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  c.up(3);
  c.down(2);
  auto order = c.abandon_at(0);
  REQUIRE(order);
  // The prefill engine had failed by itself before the order reached it.
  c.from(0, proto::request_failed{work->id, work->epoch, proto::outcome::failure(core::errc::io, "test")});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->decode == core::engine_id{3});
  c.answer(0, *order);
  CHECK_FALSE(c.work_of(0));
  c.from(0, proto::handed_over{again->id, again->epoch});
  c.from(3, proto::request_finished{again->id, core::decode_epoch(again->epoch)});
  // Closed, and so a submission is a new request.
  c.submit(1);
  auto fresh = c.work_of(0);
  REQUIRE(fresh);
  CHECK(fresh->attempt == 1);
}

TEST_CASE("an answer to an order of an earlier attempt does not let a later engine back",
          "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  c.up(3);
  c.down(2);
  auto first_order = c.abandon_at(0);
  REQUIRE(first_order);
  c.from(0, proto::request_failed{work->id, work->epoch, proto::outcome::failure(core::errc::io, "test")});
  REQUIRE(c.work_of(0));
  c.down(3);
  auto second_order = c.abandon_at(0);
  REQUIRE(second_order);
  c.up(3, 1);
  c.engines[0]->drop_all<proto::engine_up>();
  c.answer(0, *first_order);
  CHECK_FALSE(c.engines[0]->next<proto::engine_up>());
  c.answer(0, *second_order);
  CHECK(c.engines[0]->next<proto::engine_up>());
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->decode == core::engine_id{3});
}

TEST_CASE("blocks that a storage NIC has read already do not count as waiting", "[request_scheduler]") {
  cluster c;
  c.start(core::policy::dualpath);
  c.up(0);
  c.up(2);
  auto path_of = [&](std::uint64_t id, std::uint64_t partly_read_tokens) {
    c.submit(id);
    c.fetch(0, partly_read_tokens);
    c.fetch(2);
    return c.engines[0]->next<proto::prefill_work>().value().request.hits.path();
  };
  auto tokens = std::uint64_t{hit_blocks} * c.settings->layout.block_tokens;
  CHECK(path_of(1, 0) == core::read_path::prefill);
  CHECK(path_of(2, 0) == core::read_path::decode);
  CHECK(path_of(3, tokens / 3) == core::read_path::prefill);
  CHECK(path_of(4, tokens / 3) == core::read_path::decode);
}

TEST_CASE("a decode engine that dies in decode has its client submit again", "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  c.submit(1); // a repeat of an open request is not another request
  CHECK_FALSE(c.work_of(0));
  c.from(0, proto::handed_over{work->id, work->epoch});
  c.down(2);
  CHECK_FALSE(c.abandon_at(0));
  CHECK(c.client.next<proto::interrupted>());
  c.up(2, 1);
  CHECK_FALSE(c.work_of(0));
  c.submit(1);
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->attempt == 2);
}

TEST_CASE("requests that were not handed out yet go to the engines that are left", "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(1);
  c.up(2);
  c.up(3);
  c.submit(1);
  c.fetch(0); // engine 0 is chosen, the decode side is not
  c.down(0);
  c.down(2);
  auto work = c.work_of(1);
  REQUIRE(work);
  CHECK(work->prefill == core::engine_id{1});
  CHECK(work->decode == core::engine_id{3});
  CHECK(work->attempt == 1);
}

TEST_CASE("a request that fails again and again is rejected with its last reason", "[request_scheduler]") {
  cluster c;
  c.start();
  c.up(0);
  c.up(2);
  c.submit(1);
  int attempts = 0;
  while (auto work = c.work_of(0)) {
    REQUIRE(++attempts < 100);
    c.from(0, proto::request_failed{work->id, work->epoch,
                                    proto::outcome::failure(core::errc::io, "the disk is on fire")});
  }
  CHECK(attempts > 1);
  auto rejected = c.client.next<proto::rejected>();
  REQUIRE(rejected);
  CHECK_THAT(rejected->why, Catch::Contains("on fire"));
}

TEST_CASE("the read queue of a node is right again after a failure", "[request_scheduler]") {
  cluster c;
  c.start(core::policy::dualpath);
  c.up(0);
  c.up(2);
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  REQUIRE(work->hits.path() == core::read_path::prefill);
  c.down(0);
  c.up(0, 1);
  c.answer(2, *c.abandon_at(2));
  std::vector<core::read_path> paths;
  for (std::uint64_t id = 2; id <= 5; ++id) c.submit(id);
  for (std::uint32_t node : {0, 2}) c.fetch(node);
  while (auto next = c.engines[0]->next<proto::prefill_work>()) paths.push_back(next->request.hits.path());
  REQUIRE(paths.size() == 5);
  // With the true queues the reads of five requests alternate between the sides.
  auto decode = std::count(paths.begin(), paths.end(), core::read_path::decode);
  CHECK(decode >= 2);
  CHECK(decode <= 3);
}

TEST_CASE("a split read is counted in the queues of both nodes, each until its side has read its part",
          "[request_scheduler]") {
  using core::engine_role;
  cluster c;
  c.start(core::policy::split);
  c.up(0);
  c.up(2);
  auto hits_of = [&](std::uint64_t id) {
    c.submit(id);
    for (std::uint32_t node : {0, 2}) c.fetch(node);
    return c.engines[0]->next<proto::prefill_work>().value().request;
  };
  // Three blocks over two empty queues: the odd one goes to the prefill side, the next odd one to the other.
  auto first = hits_of(1);
  CHECK(first.hits == core::read_split{1, 2});
  auto second = hits_of(2);
  CHECK(second.hits == core::read_split{2, 1});
  // Queues of three blocks each; one of them ends early.
  c.from(0, proto::part_read{first.id, first.epoch, engine_role::prefill});
  c.from(0, proto::part_read{second.id, second.epoch, engine_role::prefill});
  CHECK(hits_of(3).hits == core::read_split{0, 3});
  c.from(0, proto::part_read{first.id, first.epoch, engine_role::decode});
  c.from(0, proto::part_read{first.id, first.epoch, engine_role::decode}); // a repeat counts once
  c.from(0, proto::part_read{second.id, core::epoch{99}, engine_role::decode});
  // Three blocks wait at the prefill side, two at the decode side.
  CHECK(hits_of(4).hits == core::read_split{2, 1});
}

TEST_CASE("a split read leaves the queues of both nodes when its request is routed again",
          "[request_scheduler]") {
  auto dies = GENERATE(0u, 2u);
  INFO("engine " << dies << " dies");
  cluster c;
  c.start(core::policy::split);
  c.up(0);
  c.up(2);
  c.submit(1);
  auto first = c.work_of(0);
  REQUIRE(first);
  REQUIRE(first->hits.path() == core::read_path::split);
  c.down(dies);
  c.up(dies, 1);
  auto other = 2 - dies;
  auto order = c.abandon_at(other);
  REQUIRE(order);
  c.answer(other, *order);
  auto again = c.work_of(0);
  REQUIRE(again);
  REQUIRE(again->attempt == 2);
  c.from(0, proto::part_read{again->id, again->epoch, core::engine_role::prefill});
  c.from(0, proto::part_read{again->id, again->epoch, core::engine_role::decode});
  // Both queues are empty again: the next hit is split as over idle nodes.
  c.submit(2);
  auto next = c.work_of(0);
  REQUIRE(next);
  CHECK(next->hits == core::read_split{1, 2});
}

TEST_CASE("the node that reads faster is given more of a split read", "[request_scheduler]") {
  cluster c;
  c.start(core::policy::split);
  c.up(0);
  c.up(2);
  c.submit(1);
  c.fetch(0, 0, 1000);
  c.fetch(2, 0, 2000);
  auto work = c.engines[0]->next<proto::prefill_work>();
  REQUIRE(work);
  CHECK(work->request.hits == core::read_split{2, 1});
}

TEST_CASE("what a node has read already makes room for more of a split read there", "[request_scheduler]") {
  cluster c;
  c.start(core::policy::split);
  c.up(0);
  c.up(2);
  c.submit(1);
  REQUIRE(c.work_of(0)->hits == core::read_split{1, 2});
  c.submit(2);
  c.fetch(0, std::uint64_t{2} * c.settings->layout.block_tokens);
  c.fetch(2);
  auto work = c.engines[0]->next<proto::prefill_work>();
  REQUIRE(work);
  CHECK(work->request.hits == core::read_split{1, 2});
}

// What the scheduler does with hit blocks that an engine keeps of an attempt that failed.
#include "scheduled_cluster.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using cluster = dualpath::actors::testing::scheduled_cluster;
using dualpath::actors::testing::hit_blocks;

namespace {

/// Engines 0 and 2 have a request whose hit is split, one block read on the decode side; 1 and 3 are idle.
struct split_cluster : cluster {
  split_cluster() {
    start(core::policy::split);
    up(0);
    up(2);
    submit(1);
    work = work_of(0).value();
    REQUIRE(work.hits == core::read_split{1, hit_blocks - 1});
    up(1);
    up(3);
  }
  void keeps(std::uint32_t engine, const proto::abandon& order, core::block_range kept) {
    from(engine, proto::abandoned{order.request, order.epoch, core::engine_id{engine}, kept});
  }
  /// The prefill engine dies, and the decode engine keeps its block; what it was ordered.
  proto::abandon prefill_dies() {
    down(0);
    from(0, proto::engine_fenced{core::engine_id{0}, {}});
    auto order = abandon_at(2).value();
    keeps(2, order, {0, 1});
    return order;
  }
  /// The decode engine dies, and the prefill engine keeps its blocks.
  proto::abandon decode_dies() {
    down(2);
    auto order = abandon_at(0).value();
    keeps(0, order, {1, hit_blocks - 1});
    return order;
  }
  void stock_of(std::uint32_t engine, core::epoch held, bool only_kept = false) {
    advance(settings->deadline);
    auto asked = engines[engine]->next<proto::take_stock>();
    REQUIRE(asked);
    from(engine,
         proto::stock{core::engine_id{engine}, {}, asked->round, {work.id}, {held}, only_kept ? 1u : 0u});
  }

  proto::request work;
};

} // namespace

TEST_CASE("a request whose prefill engine died goes to another with the landing that has its hits, "
          "and only the rest is read",
          "[request_scheduler][adoption]") {
  split_cluster c;
  c.down(0);
  CHECK_FALSE(c.abandon_at(2)); // its transfers may still be under way
  c.from(0, proto::engine_fenced{core::engine_id{0}, {}});
  auto order = c.abandon_at(2);
  REQUIRE(order);
  CHECK(order->keep_hits);
  c.keeps(2, *order, {0, 1});
  auto again = c.work_of(1);
  REQUIRE(again);
  CHECK(again->decode == core::engine_id{2});
  CHECK(again->attempt == 2);
  CHECK(again->hits.blocks() == hit_blocks);
  CHECK(again->hits.decode_blocks >= 1);
}

TEST_CASE("a request whose decode engine died stays with the prefill engine that has its hits",
          "[request_scheduler][adoption]") {
  split_cluster c;
  c.down(2);
  auto order = c.abandon_at(0);
  REQUIRE(order);
  CHECK(order->keep_hits);
  c.keeps(0, *order, {1, hit_blocks - 1});
  CHECK_FALSE(c.work_of(1));
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->decode == core::engine_id{3});
  CHECK(again->hits.blocks() == hit_blocks);
  CHECK(again->hits.prefill_blocks >= hit_blocks - 1);
}

TEST_CASE("blocks that were kept are in no read queue", "[request_scheduler][adoption]") {
  cluster c;
  c.start(core::policy::split);
  c.up(0);
  c.up(2);
  c.submit(1);
  REQUIRE(c.work_of(0)->hits == core::read_split{1, 2});
  c.down(2);
  auto order = c.abandon_at(0);
  REQUIRE(order);
  c.from(0, proto::abandoned{order->request, order->epoch, core::engine_id{0}, {1, 2}});
  c.up(2, 1);
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->hits == core::read_split{1, 2});
  // One block waits on the decode side, none on the other: of three more, it gets one.
  c.submit(2);
  auto next = c.work_of(0);
  REQUIRE(next);
  CHECK(next->hits == core::read_split{1, 2});
}

TEST_CASE("a request whose kept hits are lost as well is read again from the beginning",
          "[request_scheduler][adoption]") {
  split_cluster c;
  c.prefill_dies();
  c.down(2);
  auto again = c.work_of(1);
  REQUIRE(again);
  CHECK(again->decode == core::engine_id{3});
  CHECK(again->hits == core::read_split{hit_blocks - 1, 1}); // as a new hit would be, its odd block by turn
}

TEST_CASE(
    "hits that are kept are no strays while their request waits, and are let go of where it goes elsewhere",
    "[request_scheduler][adoption]") {
  split_cluster c;
  auto order = c.decode_dies();
  c.stock_of(0, order.epoch);
  CHECK_FALSE(c.abandon_at(0));
  // The node of the engine that keeps them gets no new work: the request is taken away from it.
  c.client.send(c.scheduler, proto::drain_node{core::node_id{0}});
  c.run();
  auto release = c.abandon_at(0);
  REQUIRE(release);
  CHECK_FALSE(release->keep_hits);
  CHECK(release->epoch == order.epoch);
  auto again = c.work_of(1);
  REQUIRE(again);
  CHECK(again->hits.blocks() == hit_blocks);
}

TEST_CASE("an attempt of which its prefill engine only keeps hits has ended, though word of that was lost",
          "[request_scheduler][adoption]") {
  auto only_kept = GENERATE(true, false);
  split_cluster c;
  for (int round = 0; round < 3; ++round) c.stock_of(0, c.work.epoch, only_kept);
  auto order = c.abandon_at(2);
  REQUIRE(order.has_value() == only_kept);
  if (!only_kept) return;
  c.answer(2, *order);
  for (std::uint32_t node : {0, 1, 2, 3}) c.fetch(node);
  auto again = c.engines[0]->next<proto::prefill_work>();
  if (!again) again = c.engines[1]->next<proto::prefill_work>();
  REQUIRE(again);
  CHECK(again->request.attempt == 2);
}

TEST_CASE("hits that nobody has taken over by the end of their request are let go of",
          "[request_scheduler][adoption]") {
  split_cluster c;
  auto order = c.prefill_dies();
  auto again = c.work_of(1);
  REQUIRE(again);
  auto why = proto::outcome::failure(core::errc::invalid_argument, "test");
  c.from(1, proto::request_failed{again->id, again->epoch, why});
  auto release = c.abandon_at(2);
  REQUIRE(release);
  CHECK(release->epoch == order.epoch);
  CHECK(c.client.next<proto::rejected>());
}

TEST_CASE("where storage of the prefill side does not answer, the decode side reads only what is missing",
          "[request_scheduler][adoption]") {
  split_cluster c;
  auto overdue = proto::outcome::failure(core::errc::timed_out, "test");
  c.from(0, proto::request_failed{c.work.id, c.work.epoch, overdue, {.prefill = true}, {}, true});
  CHECK_FALSE(c.work_of(0)); // not before the decode engine has told what it has
  auto order = c.abandon_at(2);
  REQUIRE(order);
  CHECK(order->keep_hits);
  c.keeps(2, *order, {0, 1});
  for (std::uint32_t node : {0, 1}) c.fetch(node);
  auto again = c.engines[0]->next<proto::prefill_work>();
  if (!again) again = c.engines[1]->next<proto::prefill_work>();
  REQUIRE(again);
  CHECK(again->request.decode == core::engine_id{2});
  CHECK(again->request.hits == core::read_split{hit_blocks, 0});
}

TEST_CASE("where storage of the decode side does not answer, the prefill side reads only what is missing",
          "[request_scheduler][adoption]") {
  split_cluster c;
  auto overdue = proto::outcome::failure(core::errc::timed_out, "test");
  c.from(0, proto::request_failed{c.work.id, c.work.epoch, overdue, {.decode = true}, {1, hit_blocks - 1}});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->hits == core::read_split{0, hit_blocks});
}

TEST_CASE("a landing that was kept for a request which can never be served is given up",
          "[request_scheduler][adoption]") {
  split_cluster c;
  auto why = proto::outcome::failure(core::errc::invalid_argument, "test");
  c.from(0, proto::request_failed{c.work.id, c.work.epoch, why, {.prefill = true}, {}, true});
  CHECK(c.client.next<proto::rejected>());
  auto order = c.abandon_at(2);
  REQUIRE(order);
  CHECK_FALSE(order->keep_hits);
}

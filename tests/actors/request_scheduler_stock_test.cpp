#include "scheduled_cluster.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using cluster = dualpath::actors::testing::scheduled_cluster;

namespace {

/// A cluster of engines 0 and 2 with a request in prefill, and a stocktaking to come.
struct busy_cluster : cluster {
  busy_cluster() {
    start();
    up(0);
    up(2);
    submit(1);
    work = work_of(0).value();
  }
  /// One round: every engine is asked, and answers that it holds these epochs of the request.
  void stock(std::vector<std::uint64_t> in_prefill, std::vector<std::uint64_t> in_decode) {
    advance(settings->deadline);
    for (auto& [engine, epochs] : {std::pair{0u, in_prefill}, std::pair{2u, in_decode}}) {
      auto asked = engines[engine]->next<proto::take_stock>();
      REQUIRE(asked);
      proto::stock answer{core::engine_id{engine}, {}, asked->round, {}, {}};
      for (auto epoch : epochs) {
        answer.requests.push_back(work.id);
        answer.epochs.push_back(core::epoch{epoch});
      }
      from(engine, answer);
    }
  }
  std::uint64_t prefill_epoch() const { return work.epoch.value; }
  std::uint64_t decode_epoch() const { return core::decode_epoch(work.epoch).value; }

  proto::request work;
};

} // namespace

TEST_CASE("a request that its engines have is left alone by stocktaking", "[request_scheduler]") {
  busy_cluster c;
  for (int round = 0; round < 5; ++round) c.stock({c.prefill_epoch()}, {c.prefill_epoch()});
  c.from(0, proto::handed_over{c.work.id, c.work.epoch});
  for (int round = 0; round < 5; ++round) c.stock({}, {c.decode_epoch(), c.prefill_epoch()});
  CHECK_FALSE(c.abandon_at(0));
  CHECK_FALSE(c.abandon_at(2));
  CHECK_FALSE(c.client.next<proto::interrupted>());
}

TEST_CASE("a request lost on its way to the prefill engine is routed again", "[request_scheduler]") {
  busy_cluster c;
  c.stock({}, {});
  CHECK_FALSE(c.abandon_at(2)); // it may be on its way between the engines
  c.stock({}, {});
  auto order = c.abandon_at(2);
  REQUIRE(order);
  c.answer(2, *order);
  CHECK(c.work_of(0)->attempt == 2);
}

TEST_CASE("a hand-over that the scheduler did not hear of is believed to the decode engine",
          "[request_scheduler]") {
  busy_cluster c;
  c.stock({}, {c.decode_epoch()});
  c.stock({}, {c.decode_epoch()});
  CHECK_FALSE(c.abandon_at(2));
  c.down(2);
  CHECK(c.client.next<proto::interrupted>()); // as of a request in decode
}

TEST_CASE("a request lost on its way to the decode engine, or whose end was lost, interrupts its client",
          "[request_scheduler]") {
  busy_cluster c;
  c.from(0, proto::handed_over{c.work.id, c.work.epoch});
  c.stock({}, {c.prefill_epoch()});
  CHECK_FALSE(c.client.next<proto::interrupted>());
  c.stock({}, {c.prefill_epoch()});
  CHECK(c.client.next<proto::interrupted>());
  CHECK(c.abandon_at(2)); // of the landing
  SECTION("the client goes on") {
    c.submit(1);
    CHECK(c.work_of(0)->attempt == 2);
  }
  SECTION("the client has it all") {
    c.client.send(c.scheduler, proto::withdrawn{c.work.id});
    c.run();
    c.submit(1);
    CHECK(c.work_of(0)->attempt == 1); // another request
  }
}

TEST_CASE("an order to abandon a request is repeated until it is answered or nothing is left to abandon",
          "[request_scheduler]") {
  busy_cluster c;
  c.down(2);
  c.up(2, 1);
  REQUIRE(c.abandon_at(0));
  for (int round = 0; round < 2; ++round) {
    c.advance(c.settings->deadline);
    auto asked = c.engines[0]->next<proto::take_stock>();
    REQUIRE(asked);
    c.from(0, proto::stock{core::engine_id{0}, {}, asked->round, {c.work.id}, {c.work.epoch}});
    CHECK(c.abandon_at(0));
    CHECK_FALSE(c.work_of(0));
  }
  c.advance(c.settings->deadline);
  auto asked = c.engines[0]->next<proto::take_stock>();
  c.from(0, proto::stock{core::engine_id{0}, {}, asked->round, {}, {}});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->attempt == 2);
}

TEST_CASE("what an engine holds of a request that is over is abandoned", "[request_scheduler]") {
  busy_cluster c;
  c.from(0, proto::handed_over{c.work.id, c.work.epoch});
  c.from(2, proto::request_finished{c.work.id, core::decode_epoch(c.work.epoch)});
  c.stock({}, {c.prefill_epoch()});
  auto order = c.abandon_at(2);
  REQUIRE(order);
  CHECK(order->epoch == c.work.epoch);
}

TEST_CASE("a prefill engine that is fenced is not waited for", "[request_scheduler]") {
  busy_cluster c;
  c.up(1);
  c.down(0);
  CHECK_FALSE(c.abandon_at(2));
  c.from(0, proto::engine_fenced{core::engine_id{0}, {}});
  auto order = c.abandon_at(2);
  REQUIRE(order);
  c.answer(2, *order);
  CHECK(c.work_of(1)->attempt == 2);
}

TEST_CASE("a read that was not answered in time goes through the other side, and then without",
          "[request_scheduler]") {
  busy_cluster c;
  CHECK(c.work.hits.path() == core::read_path::prefill);
  auto overdue = proto::outcome::failure(core::errc::timed_out, "test");
  c.from(0, proto::request_failed{c.work.id, c.work.epoch, overdue, {.prefill = true}});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->hits.path() == core::read_path::decode);
  c.from(0, proto::request_failed{again->id, again->epoch, overdue, {.decode = true}});
  again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->hits.path() == core::read_path::none);
}

TEST_CASE("where one part of a split read was not answered in time, the other side reads all of it",
          "[request_scheduler]") {
  auto prefill_failed = GENERATE(true, false);
  cluster c;
  c.start(core::policy::split);
  c.up(0);
  c.up(2);
  c.submit(1);
  auto work = c.work_of(0);
  REQUIRE(work);
  REQUIRE(work->hits == core::read_split{1, 2});
  auto overdue = proto::outcome::failure(core::errc::timed_out, "test");
  c.from(0, proto::request_failed{
                work->id, work->epoch, overdue, {.prefill = prefill_failed, .decode = !prefill_failed}});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->hits == (prefill_failed ? core::read_split{3, 0} : core::read_split{0, 3}));
  // The queues are counted right: after the retry is read, both are empty.
  for (auto side : {core::engine_role::prefill, core::engine_role::decode})
    c.from(0, proto::part_read{again->id, again->epoch, side});
  c.advance(c.settings->store_retry_interval); // until then the side that failed is left alone
  c.submit(2);
  auto next = c.work_of(0);
  REQUIRE(next);
  CHECK(next->hits == core::read_split{1, 2});
}

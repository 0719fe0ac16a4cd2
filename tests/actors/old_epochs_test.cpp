// Messages of attempts, or requests, that are over by the time they arrive: dropped at the door of each
// engine.
#include "engine_world.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using namespace dualpath::actors::testing::lone_engine;

namespace {

template <class World>
proto::stock stock_of(World& w, std::uint64_t oldest = 0) {
  w.scheduler.send(w.engine, proto::take_stock{1, core::epoch{oldest}});
  w.run();
  auto answer = w.scheduler.template next<proto::stock>();
  REQUIRE(answer);
  return *answer;
}

} // namespace

TEST_CASE("a landing that is asked for after its attempt is over is not opened", "[old_epochs]") {
  decode_world w;
  SECTION("the attempt was abandoned before its question came") { abandon(w, 2, false); }
  SECTION("it was abandoned, and what it had read kept") {
    w.open(w.first, 2);
    w.read(hit_blocks);
    abandon(w, 2);
    abandon(w, 2, false);
  }
  SECTION("its prefill engine closed the landing") {
    w.open(w.first, 2, 0);
    w.first.send(w.engine, proto::close_landing{core::request_id{1}, core::epoch{2}});
    w.run();
  }
  SECTION("its prefill engine closed the landing before the question came") {
    w.first.send(w.engine, proto::close_landing{core::request_id{1}, core::epoch{2}});
    w.run();
  }
  SECTION("the next attempt has been here meanwhile") {
    w.open(w.second, 6, 0);
    w.second.send(w.engine, proto::close_landing{core::request_id{1}, core::epoch{6}});
    w.run();
  }
  SECTION("all requests that are open are younger") { stock_of(w, 4); }
  w.first.drop_all<proto::landing>();
  w.open(w.first, 2);
  CHECK_FALSE(w.first.next<proto::landing>());
  CHECK(stock_of(w).requests.empty());
  CHECK(w.reads->empty());
  CHECK(w.slots_in_use() == 0);
  // The next attempt is welcome.
  w.open(w.second, 8, 0);
  CHECK(w.second.next<proto::landing>());
}

TEST_CASE("a landing that waits for its request, or is asked for again, is not taken for an old one",
          "[old_epochs]") {
  decode_world w;
  w.open(w.first, 2, 0);
  CHECK(w.first.next<proto::landing>());
  stock_of(w, 2);
  w.open(w.first, 2, 0);
  CHECK(w.first.next<proto::landing>());
  CHECK(w.slots_in_use() == context_blocks);
}

TEST_CASE("a hand-over of an attempt is dropped where a later one has landed", "[old_epochs]") {
  decode_world w;
  w.open(w.first, 2, 0);
  w.open(w.second, 6, 0);
  proto::request old;
  old.id = core::request_id{1};
  old.epoch = core::decode_epoch(core::epoch{2});
  old.context = std::vector<core::token_id>(context_tokens, 7);
  old.generate_tokens = 4;
  old.client = w.scheduler.pointer();
  w.first.send(w.engine, proto::decode_work{old, 1});
  w.run();
  CHECK_FALSE(w.scheduler.next<proto::tokens>());
  auto held = stock_of(w);
  CHECK(held.epochs == std::vector{core::epoch{2}, core::epoch{6}});
}

TEST_CASE("work that comes after its attempt is over is not begun", "[old_epochs]") {
  prefill_world w;
  SECTION("the attempt was abandoned before its work came") { abandon(w, 2, false); }
  SECTION("it was abandoned at work") {
    w.accept(2, 2, {0, 0});
    abandon(w, 2, false);
  }
  SECTION("the next attempt has been here meanwhile") {
    w.accept(6, 2, {0, 0});
    abandon(w, 6, false);
  }
  SECTION("all requests that are open are younger") { stock_of(w, 4); }
  w.first.drop_all<proto::open_landing>();
  w.accept(2, 2, {0, hit_blocks});
  CHECK_FALSE(w.first.next<proto::open_landing>());
  CHECK(stock_of(w).requests.empty());
  w.accept(8, 2, {0, 0});
  CHECK(w.first.next<proto::open_landing>());
}

TEST_CASE("work of an old attempt does not push a later one out", "[old_epochs]") {
  prefill_world w;
  w.accept(6, 2, {0, 0});
  w.accept(2, 2, {0, 0});
  w.accept(6, 2, {0, 0});
  CHECK(stock_of(w).epochs == std::vector{core::epoch{6}});
  CHECK(w.first.drop_all<proto::open_landing>() == 1);
}

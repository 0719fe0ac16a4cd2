// What engines keep of an attempt that failed, and how the next attempt adopts it.
#include "engine_world.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using namespace dualpath::actors::testing::lone_engine;
using dualpath::actors::testing::peer;

TEST_CASE("a landing whose prefill engine died is adopted by the next, and its hits are not read again",
          "[adoption]") {
  decode_world w;
  w.open(w.first, 2);
  CHECK(w.read(hit_blocks) == w.blocks(0, hit_blocks));
  auto before = w.first.next<proto::landing>();
  REQUIRE(before);
  REQUIRE(w.first.next<proto::hits_loaded>());
  CHECK(abandon(w, 2) == core::block_range{0, hit_blocks});
  w.open(w.second, 6);
  auto after = w.second.next<proto::landing>();
  REQUIRE(after);
  CHECK(after->epoch == core::epoch{6});
  CHECK(after->slots == before->slots);
  auto hits = w.second.next<proto::hits_loaded>();
  REQUIRE(hits);
  CHECK(hits->epoch == core::epoch{6});
  CHECK(hits->good_blocks == hit_blocks);
  CHECK(w.reads->empty());
  CHECK(w.adopted_blocks() == hit_blocks);
  CHECK(w.slots_in_use() == context_blocks);
}

TEST_CASE("a read under way when the prefill engine died goes on, for the landing's next owner",
          "[adoption]") {
  auto adopted_first = GENERATE(true, false);
  decode_world w;
  w.open(w.first, 2, 2);
  CHECK(abandon(w, 2) == core::block_range{0, 2});
  if (!adopted_first) w.read(2);
  w.open(w.second, 6, hit_blocks);
  REQUIRE(w.second.next<proto::landing>());
  CHECK_FALSE(w.second.next<proto::hits_loaded>());
  if (adopted_first) w.read(2);
  // The next attempt wants one more of this side.
  CHECK(w.read(1) == w.blocks(2, 1));
  auto hits = w.second.next<proto::hits_loaded>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == hit_blocks);
  CHECK(w.adopted_blocks() == 2);
  CHECK_FALSE(w.first.next<proto::hits_loaded>());
}

TEST_CASE("a bad block of a landing that was kept ends the hit of its next owner", "[adoption]") {
  auto adopted_first = GENERATE(true, false);
  decode_world w;
  w.open(w.first, 2);
  abandon(w, 2);
  if (!adopted_first) w.read(1);
  w.open(w.second, 6);
  if (adopted_first) {
    w.read(1);
  } else {
    CHECK(w.read(0) == w.blocks(1, 2)); // asked for again, since nobody told the scheduler
  }
  auto hits = w.second.next<proto::hits_loaded>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == 1);
  CHECK(w.adopted_blocks() == 1);
}

TEST_CASE("an overdue read that was asked for by an earlier attempt is told to the present one",
          "[adoption]") {
  decode_world w;
  w.open(w.first, 2);
  abandon(w, 2);
  w.open(w.second, 6);
  REQUIRE(w.second.next<proto::landing>());
  w.scheduler.send(w.engine, proto::read_overdue{core::request_id{1}, core::epoch{2}});
  w.run();
  auto news = w.second.next<proto::landing>();
  REQUIRE(news);
  CHECK(news->status.code == core::errc::timed_out);
  // Given up by its owner, the slots come back with the end of the read and not earlier.
  w.second.send(w.engine, proto::close_landing{core::request_id{1}, core::epoch{6}});
  w.run();
  CHECK(w.slots_in_use() == context_blocks);
  w.read(hit_blocks);
  CHECK(w.slots_in_use() == 0);
}

TEST_CASE("a landing without hits, and one whose read is overdue, are not kept", "[adoption]") {
  decode_world w;
  w.open(w.first, 2, 0, 1);
  CHECK(abandon(w, 2, true, 1).count == 0);
  w.open(w.first, 4, hit_blocks, 2);
  w.open(w.first, 6, hit_blocks, 3);
  CHECK(abandon(w, 6, true, 3).count == hit_blocks);
  for (std::uint64_t request : {2, 3})
    w.scheduler.send(w.engine, proto::read_overdue{core::request_id{request}, core::epoch{2 * request}});
  w.run();
  CHECK(abandon(w, 4, true, 2).count == 0);
  CHECK(abandon(w, 6, true, 3).count == 0);
  w.read(hit_blocks);
  w.read(hit_blocks);
  CHECK(w.slots_in_use() == 0);
}

TEST_CASE("nobody waits for the slots of a landing that is kept", "[adoption]") {
  decode_world w{2 * context_blocks};
  w.open(w.first, 2, hit_blocks, 1);
  w.read(hit_blocks);
  w.open(w.first, 4, 0, 2);
  w.first.drop_all<proto::landing>();
  SECTION("those who come later") {
    CHECK(abandon(w, 2).count == hit_blocks);
    w.open(w.first, 6, 0, 3);
  }
  SECTION("those who are there already") {
    w.open(w.first, 6, 0, 3);
    CHECK(abandon(w, 2).count == 0);
  }
  CHECK(w.first.next<proto::landing>());
  // The next attempt reads its hits again.
  w.first.send(w.engine, proto::close_landing{core::request_id{2}, core::epoch{4}});
  w.open(w.second, 8);
  CHECK(w.read(hit_blocks) == w.blocks(0, hit_blocks));
  CHECK(w.adopted_blocks() == 0);
}

TEST_CASE("what a decode engine keeps it tells again, and late work for it is refused", "[adoption]") {
  decode_world w;
  w.open(w.first, 2);
  w.read(hit_blocks);
  for (int i = 0; i < 2; ++i) CHECK(abandon(w, 2) == core::block_range{0, hit_blocks});
  proto::request late;
  late.id = core::request_id{1};
  late.epoch = core::decode_epoch(core::epoch{2});
  late.context = std::vector<core::token_id>(context_tokens, 7);
  late.client = w.scheduler.pointer();
  w.first.send(w.engine, proto::decode_work{late, 5});
  w.run();
  CHECK(w.scheduler.next<proto::request_failed>());
  // An attempt that ended before it came here kept them too.
  CHECK(abandon(w, 6) == core::block_range{0, hit_blocks});
  w.open(w.second, 8);
  CHECK(w.adopted_blocks() == hit_blocks);
}

TEST_CASE("hits in a PE buffer outlive the decode engine, and are not read again", "[adoption]") {
  prefill_world w;
  w.accept(2, 2, {1, 2});
  w.land(2, 2);
  CHECK(w.read(2) == w.blocks(1, 2));
  CHECK(abandon(w, 2) == core::block_range{1, 2});
  CHECK(w.slots_in_use() == 2);
  w.accept(6, 3, {1, 2});
  w.land(6, 3);
  CHECK(w.reads->empty());
  w.second.send(w.engine, proto::hits_loaded{core::request_id{1}, core::epoch{6}, 1});
  w.run();
  auto hits = w.scheduler.next<proto::hits_read>();
  REQUIRE(hits);
  CHECK(hits->epoch == core::epoch{6});
  CHECK(hits->good_blocks == 3);
  CHECK(w.adopted_blocks() == 2);
}

TEST_CASE("a prefill engine tells apart what it works on and what it only keeps", "[adoption]") {
  prefill_world w;
  w.accept(2, 2, {1, 2}, 1);
  w.accept(4, 2, {1, 2}, 2);
  for (std::uint64_t request : {1, 2}) w.land(2 * request, 2, request);
  CHECK(abandon(w, 2).count == 2);
  w.scheduler.send(w.engine, proto::take_stock{1});
  w.run();
  auto stock = w.scheduler.next<proto::stock>();
  REQUIRE(stock);
  CHECK(stock->requests == std::vector{core::request_id{2}, core::request_id{1}});
  CHECK(stock->kept == 1);
}

TEST_CASE("kept blocks of which the next attempt has no use are given back", "[adoption]") {
  auto released = GENERATE(true, false);
  prefill_world w;
  w.accept(2, 2, {1, 2});
  w.land(2, 2);
  w.read(2);
  CHECK(abandon(w, 2).count == 2);
  if (released) {
    CHECK(abandon(w, 2, false).count == 0);
  } else {
    w.accept(6, 3, {3, 0});
  }
  CHECK(w.slots_in_use() == 0);
}

TEST_CASE("a read under way when the decode engine died goes on, for the next attempt", "[adoption]") {
  auto read_before = GENERATE(0, 1, 2);
  INFO("read: 0 before the next attempt, 1 before its landing, 2 after it");
  prefill_world w;
  w.accept(2, 2, {1, 2});
  w.land(2, 2);
  CHECK(abandon(w, 2) == core::block_range{1, 2});
  if (read_before == 0) CHECK(w.read(2) == w.blocks(1, 2));
  // The block before them is to be read here too.
  w.accept(6, 3, {0, 3});
  REQUIRE(w.second.next<proto::open_landing>());
  if (read_before == 1) w.read(2);
  w.scheduler.drop_all<proto::part_read>();
  w.land(6, 3);
  if (read_before == 2) w.read(2);
  CHECK_FALSE(w.scheduler.next<proto::part_read>());
  CHECK(w.read(1) == w.blocks(0, 1));
  CHECK(w.scheduler.next<proto::part_read>());
  auto hits = w.scheduler.next<proto::hits_read>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == 3);
  CHECK(w.adopted_blocks() == 2);
  CHECK(w.reads->empty());
}

TEST_CASE("a bad block before, in or behind the blocks that were kept ends the hit there", "[adoption]") {
  struct outcome {
    std::uint32_t kept_good, rest_good, hit, adopted;
  };
  // Kept are blocks 1 and 2 of 3; block 0 is read anew.
  auto each = GENERATE(outcome{2, 1, 3, 2}, outcome{1, 1, 2, 1}, outcome{0, 1, 1, 0}, outcome{2, 0, 0, 0});
  prefill_world w;
  w.accept(2, 2, {1, 2});
  w.land(2, 2);
  abandon(w, 2);
  w.accept(6, 3, {0, 3});
  w.land(6, 3);
  w.read(each.kept_good);
  w.read(each.rest_good);
  auto hits = w.scheduler.next<proto::hits_read>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == each.hit);
  CHECK(w.adopted_blocks() == each.adopted);
}

TEST_CASE("nobody waits for slots of a PE buffer that are kept, nor does who adopts them wait with them",
          "[adoption]") {
  prefill_world w{4};
  w.accept(2, 2, {0, 3}, 1);
  w.land(2, 2, 1);
  SECTION("kept, and wanted by another") {
    CHECK(abandon(w, 2).count == 3);
    w.read(3);
    w.accept(4, 2, {1, 2}, 2);
    w.land(4, 2, 2);
    CHECK(w.read(2) == w.blocks(1, 2));
  }
  SECTION("adopted without a landing, and wanted by another") {
    abandon(w, 2);
    w.read(3);
    w.accept(6, 3, {0, 3}, 1);
    w.accept(4, 2, {1, 2}, 2);
    w.land(4, 2, 2);
    CHECK(w.read(2) == w.blocks(1, 2));
    w.land(6, 3, 1);
    CHECK(w.reads->empty()); // waits for the others, holding nothing
  }
  SECTION("others wait already") {
    w.accept(4, 2, {1, 2}, 2);
    w.land(4, 2, 2);
    CHECK(abandon(w, 2).count == 0);
    w.read(3);
    CHECK(w.read(2) == w.blocks(1, 2));
  }
  CHECK(w.slots_in_use() == 2);
  CHECK(w.adopted_blocks() == 0);
}

TEST_CASE("where the decode side's storage does not answer, the prefill engine keeps its own part",
          "[adoption]") {
  prefill_world w;
  w.accept(2, 2, {1, 2});
  w.land(2, 2);
  w.read(2);
  auto overdue = proto::outcome::failure(core::errc::timed_out, "test");
  w.first.send(w.engine, proto::landing{core::request_id{1}, core::epoch{2}, {}, overdue});
  w.run();
  auto failed = w.scheduler.next<proto::request_failed>();
  REQUIRE(failed);
  CHECK(failed->failed_reads == core::failed_reads{false, true});
  CHECK(failed->kept == core::block_range{1, 2});
  CHECK(w.first.next<proto::close_landing>());
  w.accept(6, 2, {0, 3});
  w.land(6, 2);
  CHECK(w.read(1) == w.blocks(0, 1));
  CHECK(w.adopted_blocks() == 2);
}

TEST_CASE("where the prefill side's storage does not answer, the landing is the scheduler's to end",
          "[adoption]") {
  auto decode_blocks = GENERATE(0u, 1u);
  prefill_world w;
  w.accept(2, 2, {decode_blocks, 2});
  w.land(2, 2);
  w.scheduler.send(w.engine, proto::read_overdue{core::request_id{1}, core::epoch{2}});
  w.run();
  auto failed = w.scheduler.next<proto::request_failed>();
  REQUIRE(failed);
  CHECK(failed->landing_kept == (decode_blocks > 0));
  CHECK(w.first.next<proto::close_landing>().has_value() == (decode_blocks == 0));
  CHECK(w.slots_in_use() == 2);
  w.read(2);
  CHECK(w.slots_in_use() == 0);
}

TEST_CASE("an overdue read of an earlier attempt fails the one that adopted it", "[adoption]") {
  prefill_world w;
  w.accept(2, 2, {0, 3});
  w.land(2, 2);
  abandon(w, 2);
  w.accept(6, 3, {0, 3});
  w.scheduler.send(w.engine, proto::read_overdue{core::request_id{1}, core::epoch{2}});
  w.run();
  auto failed = w.scheduler.next<proto::request_failed>();
  REQUIRE(failed);
  CHECK(failed->epoch == core::epoch{6});
  CHECK(failed->failed_reads == core::failed_reads{true, false});
}

TEST_CASE("an engine whose requests have had no slots for many deadlines asks whether the store holds them",
          "[adoption]") {
  auto patience = std::uint64_t{4};
  decode_world w{context_blocks};
  w.open(w.first, 2, hit_blocks, 1);
  w.open(w.first, 4, 0, 2);
  w.advance(w.settings->deadline * (patience - 1));
  CHECK(*w.misses == 0);
  w.advance(w.settings->deadline * 2);
  CHECK(*w.misses > 0);
  w.first.send(w.engine, proto::close_landing{core::request_id{1}, core::epoch{2}});
  w.read(hit_blocks);
  *w.misses = 0;
  w.advance(w.settings->deadline * 2 * patience);
  CHECK(*w.misses == 0);
}

// What engines do when the storage of their side ends a read with an I/O error: the other side reads once,
// then the blocks are computed.
#include "engine_world.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using namespace dualpath::actors::testing::lone_engine;
using dualpath::actors::testing::peer;

namespace {

/// What the decode engine of the request tells of its hits.
void hits_loaded(prefill_world& w, std::uint64_t epoch, std::uint32_t good_blocks, bool unreadable) {
  w.first.send(w.engine,
               proto::hits_loaded{core::request_id{1}, core::epoch{epoch}, good_blocks, unreadable});
  w.run();
}

/// Whether the attempt failed so that the other side reads. This engine has no memory to compute with, so
/// that one which goes on fails as well, but blames no storage.
bool sent_to_other_side(prefill_world& w) {
  auto sent = false;
  while (auto failed = w.scheduler.next<proto::request_failed>()) sent |= failed->failed_reads.any();
  return sent;
}

} // namespace

TEST_CASE("a part that the prefill side cannot read fails the attempt, and the decode side keeps its own",
          "[failed_reads]") {
  auto decode_blocks = GENERATE(0u, 1u);
  prefill_world w;
  w.accept(2, 2, {decode_blocks, hit_blocks - decode_blocks});
  w.land(2, 2);
  w.scheduler.drop_all<proto::part_read>();
  w.read(1, true);
  auto failed = w.scheduler.next<proto::request_failed>();
  REQUIRE(failed);
  CHECK(failed->why.code == core::errc::io);
  CHECK_THAT(failed->why.text, Catch::Contains("block " + std::to_string(decode_blocks + 1)));
  CHECK(failed->failed_reads == core::failed_reads{.prefill = true});
  CHECK(failed->kept.count == 0);
  CHECK(failed->landing_kept == (decode_blocks > 0));
  CHECK(w.first.next<proto::close_landing>().has_value() == (decode_blocks == 0));
  CHECK_FALSE(w.scheduler.next<proto::part_read>());
  CHECK(w.slots_in_use() == 0);
  CHECK(w.counters->blocks_unreadable == 0);
}

TEST_CASE("where the decode side cannot read its part, whoever has more of the hit keeps it",
          "[failed_reads]") {
  struct outcome {
    std::uint32_t decode_blocks, good_decode_blocks, good_prefill_blocks;
    core::block_range kept;
    bool landing_kept;
  };
  auto each = GENERATE(outcome{2, 1, 1, {2, 1}, false}, outcome{1, 0, 2, {1, 2}, false},
                       outcome{2, 1, 0, {}, true}, outcome{3, 2, 0, {}, true}, outcome{3, 0, 0, {}, false});
  prefill_world w;
  w.accept(2, 2, {each.decode_blocks, hit_blocks - each.decode_blocks});
  w.land(2, 2);
  if (each.decode_blocks < hit_blocks) w.read(each.good_prefill_blocks);
  hits_loaded(w, 2, each.good_decode_blocks, true);
  auto failed = w.scheduler.next<proto::request_failed>();
  REQUIRE(failed);
  CHECK(failed->failed_reads == core::failed_reads{.decode = true});
  CHECK(failed->kept == each.kept);
  CHECK(failed->landing_kept == each.landing_kept);
  CHECK(w.first.next<proto::close_landing>().has_value() == !each.landing_kept);
  CHECK(w.slots_in_use() == each.kept.count);
  CHECK(w.counters->blocks_unreadable == 0);
}

TEST_CASE("a part that is still being read on the prefill side is kept where the decode side cannot read",
          "[failed_reads]") {
  prefill_world w;
  w.accept(2, 2, {2, 1});
  w.land(2, 2);
  hits_loaded(w, 2, 1, true);
  auto failed = w.scheduler.next<proto::request_failed>();
  REQUIRE(failed);
  CHECK(failed->kept == core::block_range{2, 1});
  w.read(1);
  w.accept(6, 2, {0, hit_blocks}, 1, {.decode = true});
  w.land(6, 2);
  CHECK(w.read(2) == w.blocks(0, 2));
  auto hits = w.scheduler.next<proto::hits_read>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == hit_blocks);
  CHECK(w.adopted_blocks() == 1);
}

TEST_CASE("where a read of the request failed before, an I/O error ends the hit, and its blocks are counted",
          "[failed_reads]") {
  auto side = GENERATE(core::engine_role::prefill, core::engine_role::decode);
  auto before = GENERATE(core::failed_reads{.prefill = true}, core::failed_reads{.decode = true});
  INFO("on the " << to_string(side) << " side");
  prefill_world w;
  auto here = side == core::engine_role::prefill;
  w.accept(6, 2, here ? core::read_split{0, hit_blocks} : core::read_split{hit_blocks, 0}, 1, before);
  w.land(6, 2);
  w.scheduler.drop_all<proto::part_read>();
  if (here) {
    w.read(1, true);
  } else {
    hits_loaded(w, 6, 1, true);
  }
  CHECK_FALSE(sent_to_other_side(w));
  auto part = w.scheduler.next<proto::part_read>();
  REQUIRE(part);
  CHECK(part->side == side);
  CHECK(part->good_blocks == 1);
  CHECK(part->unreadable);
  auto hits = w.scheduler.next<proto::hits_read>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == 1);
  CHECK(w.counters->blocks_unreadable == hit_blocks - 1);
}

TEST_CASE("an I/O error in the last attempt at a request ends the hit, not the request", "[failed_reads]") {
  auto last = GENERATE(false, true);
  prefill_world w;
  w.attempt = proto::max_attempts - (last ? 0 : 1);
  w.accept(2, 2, {0, hit_blocks});
  w.land(2, 2);
  w.read(1, true);
  CHECK(sent_to_other_side(w) == !last);
  CHECK(w.counters->blocks_unreadable == (last ? hit_blocks - 1 : 0));
}

TEST_CASE("an I/O error behind a bad block of the decode side matters to nobody", "[failed_reads]") {
  prefill_world w;
  w.accept(2, 2, {1, 2});
  w.land(2, 2);
  hits_loaded(w, 2, 0, false);
  w.read(1, true);
  CHECK_FALSE(sent_to_other_side(w));
  auto hits = w.scheduler.next<proto::hits_read>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == 0);
  CHECK(w.counters->blocks_unreadable == 0);
}

TEST_CASE("kept blocks whose read ends with an I/O error send the attempt that adopts them elsewhere, once",
          "[failed_reads]") {
  auto failed_before = GENERATE(false, true);
  auto adopted_first = GENERATE(false, true);
  prefill_world w;
  w.accept(2, 2, {0, hit_blocks});
  w.land(2, 2);
  CHECK(abandon(w, 2).count == hit_blocks);
  if (!adopted_first) w.read(1, true);
  w.accept(6, 3, {0, hit_blocks}, 1, {.decode = failed_before});
  w.land(6, 3);
  if (adopted_first) w.read(1, true);
  CHECK(sent_to_other_side(w) == !failed_before);
  CHECK(w.scheduler.next<proto::hits_read>().has_value() == failed_before);
  CHECK(w.counters->blocks_unreadable == (failed_before ? hit_blocks - 1 : 0));
  CHECK(w.adopted_blocks() == (failed_before ? 1 : 0));
  CHECK(w.slots_in_use() == 0);
}

TEST_CASE("a decode engine tells of an I/O error, again where asked again, and keeps what it has read",
          "[failed_reads]") {
  decode_world w;
  w.open(w.first, 2);
  w.read(2, true);
  for (int i = 0; i < 2; ++i) {
    auto hits = w.first.next<proto::hits_loaded>();
    REQUIRE(hits);
    CHECK(hits->good_blocks == 2);
    CHECK(hits->unreadable);
    w.open(w.first, 2);
  }
  CHECK(abandon(w, 2) == core::block_range{0, 2});
  // The prefill side is to read the rest.
  w.open(w.second, 6, 2);
  auto hits = w.second.next<proto::hits_loaded>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == 2);
  CHECK_FALSE(hits->unreadable);
  CHECK(w.reads->empty());
  CHECK(w.adopted_blocks() == 2);
}

TEST_CASE("an I/O error of a landing that was kept is told to its next owner only where that wants the block",
          "[failed_reads]") {
  auto adopted_first = GENERATE(true, false);
  decode_world w;
  w.open(w.first, 2);
  CHECK(abandon(w, 2).count == hit_blocks);
  if (!adopted_first) w.read(1, true);
  w.open(w.second, 6);
  if (adopted_first) {
    w.read(1, true);
  } else {
    CHECK(w.read(2) == w.blocks(1, 2)); // read again, since the scheduler knows nothing of it
  }
  auto hits = w.second.next<proto::hits_loaded>();
  REQUIRE(hits);
  CHECK(hits->good_blocks == (adopted_first ? 1 : hit_blocks));
  CHECK(hits->unreadable == adopted_first);
}

TEST_CASE("a landing of which nothing could be read is not kept", "[failed_reads]") {
  decode_world w;
  w.open(w.first, 2);
  w.read(0, true);
  CHECK(abandon(w, 2).count == 0);
  CHECK(w.slots_in_use() == 0);
}

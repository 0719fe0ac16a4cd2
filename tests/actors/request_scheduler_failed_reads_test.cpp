// Where the scheduler has hits read when the storage of one side fails.
#include "scheduled_cluster.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using cluster = dualpath::actors::testing::scheduled_cluster;
using dualpath::actors::testing::hit_blocks;

namespace {

/// Engines 0 and 2, of which the prefill side reads.
struct small_cluster : cluster {
  small_cluster() {
    start(core::policy::basic);
    up(0);
    up(2);
  }
  proto::request submitted(std::uint64_t id) {
    submit(id);
    auto work = work_of(0);
    REQUIRE(work);
    return *work;
  }
  void fails(const proto::request& request, core::failed_reads sides) {
    auto why = proto::outcome::failure(core::errc::io, "test");
    from(0, proto::request_failed{request.id, request.epoch, why, sides});
  }
  void reads(const proto::request& request, core::engine_role side) {
    from(0, proto::part_read{request.id, request.epoch, side, hit_blocks});
    from(0, proto::hits_read{request.id, request.epoch, hit_blocks});
  }
};

constexpr core::read_split on_prefill{0, hit_blocks}, on_decode{hit_blocks, 0};

} // namespace

TEST_CASE("a read that failed goes through the other side", "[request_scheduler][failed_reads]") {
  small_cluster c;
  auto work = c.submitted(1);
  REQUIRE(work.hits == on_prefill);
  c.fails(work, {.prefill = true});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->hits == on_decode);
  CHECK(again->failed_reads == core::failed_reads{.prefill = true});
}

TEST_CASE(
    "a landing keeps what the decode side has read before it failed, and the prefill side reads the rest",
    "[request_scheduler][failed_reads]") {
  cluster c;
  c.start(core::policy::round_robin);
  c.up(0);
  c.up(2);
  for (std::uint64_t id : {1, 2}) c.submit(id);
  REQUIRE(c.work_of(0));
  auto work = c.work_of(0);
  REQUIRE(work);
  REQUIRE(work->hits == on_decode);
  auto why = proto::outcome::failure(core::errc::io, "test");
  c.from(0, proto::request_failed{work->id, work->epoch, why, {.decode = true}, {}, true});
  auto order = c.abandon_at(2);
  REQUIRE(order);
  CHECK(order->keep_hits);
  c.from(2, proto::abandoned{order->request, order->epoch, core::engine_id{2}, {0, 2}});
  auto again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->decode == core::engine_id{2});
  CHECK(again->hits == core::read_split{2, hit_blocks - 2});
}

TEST_CASE("a side whose storage fails is left alone for a while, and then one request finds out",
          "[request_scheduler][failed_reads]") {
  small_cluster c;
  c.fails(c.submitted(1), {.prefill = true});
  REQUIRE(c.work_of(0));
  CHECK(c.submitted(2).hits == on_decode);
  c.advance(c.settings->store_retry_interval);
  auto probe = c.submitted(3);
  CHECK(probe.hits == on_prefill);
  CHECK(c.submitted(4).hits == on_decode);
  SECTION("storage has recovered") {
    c.reads(probe, core::engine_role::prefill);
    CHECK(c.submitted(5).hits == on_prefill);
    CHECK(c.submitted(6).hits == on_prefill);
  }
  SECTION("it has not") {
    c.fails(probe, {.prefill = true});
    REQUIRE(c.work_of(0));
    CHECK(c.submitted(5).hits == on_decode);
  }
}

TEST_CASE("where both sides fail, reads are placed as the policy says", "[request_scheduler][failed_reads]") {
  small_cluster c;
  auto work = c.submitted(1);
  c.fails(work, {.prefill = true});
  auto again = c.work_of(0);
  REQUIRE(again);
  c.fails(*again, {.decode = true});
  again = c.work_of(0);
  REQUIRE(again);
  CHECK(again->hits == core::read_split{});
  CHECK(c.submitted(2).hits == on_prefill);
}

TEST_CASE("a block that neither side can read is no hit of those who come next",
          "[request_scheduler][failed_reads]") {
  small_cluster c;
  c.fails(c.submitted(1), {.prefill = true});
  auto again = c.work_of(0);
  REQUIRE(again);
  REQUIRE(again->hits == on_decode);
  c.from(0, proto::part_read{again->id, again->epoch, core::engine_role::decode, 1, true});
  CHECK(c.submitted(2).hits.blocks() == 1);
}

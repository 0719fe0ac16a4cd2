// Real prefill and decode engines, each among actors played by the test: what they keep of an attempt that
// failed, and how the next attempt adopts it.
#include "actor_world.hpp"
#include "actors/buffer_pool.hpp"
#include "actors/decode_engine.hpp"
#include "actors/prefill_engine.hpp"

#include <catch2/catch.hpp>

#include <deque>

using namespace dualpath;
using namespace dualpath::actors;
using dualpath::actors::testing::actor_world;
using dualpath::actors::testing::peer;

namespace {

using slot_list = std::vector<std::uint32_t>;
constexpr std::uint32_t context_tokens = 14, context_blocks = 4, hit_blocks = 3;

struct plain_memory final : kernels::device_memory {
  std::span<std::byte> bytes() override { return memory; }
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
};

/// A storage NIC that reads when the test says so.
struct pending_read {
  proto::read_blocks ask;
  caf::typed_response_promise<proto::blocks_read> answer;
};
using pending_reads = std::shared_ptr<std::deque<pending_read>>;

proto::storage_nic_actor::behavior_type scripted_nic(proto::storage_nic_actor::pointer self,
                                                     pending_reads reads, std::shared_ptr<int> misses) {
  return {
      [self, reads](proto::read_blocks& ask) -> caf::result<proto::blocks_read> {
        auto answer = self->make_response_promise<proto::blocks_read>();
        reads->push_back({std::move(ask), answer});
        return answer;
      },
      [](proto::write_block&) { return proto::outcome{}; },
      [](const proto::drain_engine&) { return proto::devices_idle{}; },
      [](const proto::operation_done&) {},
      [misses](const proto::slots_overdue&) { ++*misses; },
      [reads](const proto::tick& end) { // of the first read, with so many good blocks
        auto answer = std::move(reads->front().answer);
        reads->pop_front();
        answer.deliver(proto::blocks_read{static_cast<std::uint32_t>(end.id)});
      },
  };
}

/// One engine over a pool of so many slots.
struct engine_world : actor_world {
  engine_world(core::engine_role role, std::uint32_t slots) {
    settings->deadline = std::chrono::seconds{1};
    auto spare = role == core::engine_role::decode ? settings->write_slots : 0;
    memory.resize((slots + spare) * settings->slot_bytes);
    devices->engine = core::engine_id{role == core::engine_role::decode ? 2u : 0u};
    devices->role = role;
    devices->pool = {core::region_id{0}, memory};
    devices->hbm = std::make_shared<plain_memory>();
    pool = system.spawn(buffer_pool, slots, &usage);
    nic = system.spawn(scripted_nic, reads, misses);
    auto context = std::vector<core::token_id>(context_tokens, 7);
    keys = core::key_chain(settings->fingerprint, context, settings->layout.block_tokens);
  }
  /// Ends the next read of the engine; its blocks.
  core::shared_keys read(std::uint32_t good_blocks) {
    REQUIRE_FALSE(reads->empty());
    auto blocks_asked = reads->front().ask.keys;
    scheduler.send(nic, proto::tick{good_blocks});
    run();
    return blocks_asked;
  }
  std::vector<core::block_key> blocks(std::uint32_t first, std::uint32_t count) const {
    return {keys.begin() + first, keys.begin() + first + count};
  }
  std::uint64_t slots_in_use() const {
    return usage.used()[static_cast<std::size_t>(core::resource::buffer_slots)];
  }
  std::uint64_t adopted_blocks() const { return counters->adopted_tokens / settings->layout.block_tokens; }

  core::usage_gauge usage;
  std::vector<std::byte> memory;
  devices_ptr devices = std::make_shared<engine_devices>();
  std::shared_ptr<core::node_counters> counters = std::make_shared<core::node_counters>();
  pending_reads reads = std::make_shared<std::deque<pending_read>>();
  std::shared_ptr<int> misses = std::make_shared<int>(0); ///< of slots, as the storage NIC was told
  peer scheduler{system}, compute_nic{system};
  proto::buffer_pool_actor pool;
  proto::storage_nic_actor nic;
  std::vector<core::block_key> keys;
};

template <class World>
core::block_range abandon(World& w, std::uint64_t epoch, bool keep = true, std::uint64_t request = 1) {
  w.scheduler.template drop_all<proto::abandoned>();
  w.scheduler.send(w.engine, proto::abandon{core::request_id{request}, core::epoch{epoch}, keep});
  w.run();
  auto answer = w.scheduler.template next<proto::abandoned>();
  REQUIRE(answer);
  CHECK(answer->epoch == core::epoch{epoch});
  CHECK(answer->engine == w.devices->engine);
  return answer->kept;
}

struct decode_world : engine_world {
  explicit decode_world(std::uint32_t slots = 12) : engine_world{core::engine_role::decode, slots} {
    engine =
        system.spawn(decode_engine, settings_ptr{settings}, devices, scheduler.as<proto::scheduler_actor>(),
                     nic, compute_nic.as<proto::compute_nic_actor>(), pool, core::incarnation{}, counters);
  }
  ~decode_world() {
    caf::anon_send_exit(engine, caf::exit_reason::kill);
    run();
  }
  void open(peer& prefill, std::uint64_t epoch, std::uint32_t hits = hit_blocks, std::uint64_t request = 1) {
    prefill.send(engine, proto::open_landing{core::request_id{request}, core::epoch{epoch}, context_tokens,
                                             blocks(0, hits)});
    run();
  }

  proto::decode_actor engine;
  peer first{system}, second{system};
};

struct prefill_world : engine_world {
  explicit prefill_world(std::uint32_t slots = 8) : engine_world{core::engine_role::prefill, slots} {
    engine =
        system.spawn(prefill_engine, settings_ptr{settings}, devices, scheduler.as<proto::scheduler_actor>(),
                     nic, compute_nic.as<proto::compute_nic_actor>(), pool, core::incarnation{}, counters);
    for (std::uint32_t id : {2, 3}) {
      proto::engine_up up;
      up.engine = core::engine_id{id};
      up.role = core::engine_role::decode;
      up.actor = (id == 2 ? first : second).pointer();
      scheduler.send(engine, up);
    }
    run();
  }
  ~prefill_world() {
    caf::anon_send_exit(engine, caf::exit_reason::kill);
    run();
  }
  void accept(std::uint64_t epoch, std::uint32_t decode, core::read_split hits, std::uint64_t id = 1) {
    proto::request request;
    request.id = core::request_id{id};
    request.epoch = core::epoch{epoch};
    request.context = std::vector<core::token_id>(context_tokens, 7);
    request.keys = keys;
    request.hits = hits;
    request.decode = core::engine_id{decode};
    request.client = scheduler.pointer();
    scheduler.send(engine, proto::prefill_work{request});
    run();
  }
  void land(std::uint64_t epoch, std::uint32_t decode, std::uint64_t request = 1) {
    (decode == 2 ? first : second)
        .send(engine,
              proto::landing{core::request_id{request}, core::epoch{epoch}, slot_list{0, 1, 2, 3}, {}});
    run();
  }

  proto::prefill_actor engine;
  peer first{system}, second{system}; ///< decode engines 2 and 3
};

} // namespace

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

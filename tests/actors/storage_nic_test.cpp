#include "actors/storage_nic.hpp"

#include "actor_world.hpp"
#include "storage/bounded_store.hpp"
#include "storage/sim_store.hpp"
#include "tests/support/faulty_store.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>

using namespace dualpath;
using namespace dualpath::actors;
using dualpath::actors::testing::actor_world;
using dualpath::actors::testing::peer;

namespace {

constexpr auto latency = std::chrono::milliseconds{10};
constexpr auto short_deadline = std::chrono::milliseconds{100};
constexpr std::uint32_t slots = 16;

/// A storage NIC with two engines over a simulated store; the test plays engines, directory and leader.
struct nic_world : actor_world {
  explicit nic_world(std::uint32_t depth = 16, storage::sim_faults faults = {},
                     std::uint64_t capacity_blocks = 0, core::duration answers_after = latency,
                     core::duration deadline = std::chrono::seconds{30}) {
    settings->deadline = deadline;
    settings->storage_depth = depth;
    storage::sim_store_options options;
    options.payload_bytes = settings->layout.full_block_bytes();
    options.clock = &clock;
    options.timing.latency = answers_after;
    options.faults = faults;
    auto opened = storage::open_sim_store(std::move(options));
    REQUIRE(opened);
    if (capacity_blocks != 0) {
      opened = storage::bound_store(std::move(*opened), 1, capacity_blocks);
      REQUIRE(opened);
    }
    disk = std::make_shared<dualpath::testing::faulty_store>(std::move(*opened));
    node->role = core::engine_role::prefill;
    node->store = disk;
    for (std::uint32_t engine : {0, 1}) {
      auto devices = std::make_shared<engine_devices>();
      devices->engine = core::engine_id{engine};
      devices->pool = {core::region_id{engine}, pool_of(engine)};
      node->engines.push_back(devices);
    }
    nic = system.spawn(storage_nic, settings_ptr{settings}, std::shared_ptr<const node_devices>{node},
                       directory.as<proto::directory_actor>(), leader.as<proto::leader_actor>());
    parent = core::root_key(settings->fingerprint);
    for (std::uint32_t i = 0; i < slots; ++i) keys.push_back(core::child_key(parent, std::array{i}));
  }
  ~nic_world() {
    // Its watch over operations under way goes on, and the system ends only when no timer is left.
    caf::anon_send_exit(nic, caf::exit_reason::kill);
    run();
  }
  std::span<std::byte> pool_of(std::uint32_t engine) {
    return {memory.get() + engine * slots * settings->slot_bytes, slots * settings->slot_bytes};
  }
  void write(std::uint32_t block, std::uint32_t engine = 0) {
    pool_of(engine)[block * settings->slot_bytes] = std::byte{static_cast<unsigned char>(block + 1)};
    engines[engine].send(nic, proto::write_block{core::engine_id{engine}, block, keys[block], parent, 0});
    run();
  }
  /// Block i of the list goes to slot i.
  void read(const std::vector<std::uint32_t>& blocks, std::uint32_t engine = 0) {
    proto::read_blocks ask;
    ask.engine = core::engine_id{engine};
    ask.epoch = core::epoch{7};
    std::vector<core::block_key> wanted;
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      wanted.push_back(keys[blocks[i]]);
      ask.slots.push_back(i);
    }
    ask.keys = std::move(wanted);
    engines[engine].send(nic, std::move(ask));
    run();
  }
  void drain(std::uint32_t engine) {
    engines[engine].send(nic, proto::drain_engine{core::engine_id{engine}});
    run();
  }
  /// What the leader heard: tokens already read of requests that are still being read.
  std::vector<std::uint64_t> reported() {
    std::vector<std::uint64_t> tokens;
    while (auto progress = leader.next<proto::read_progress>())
      tokens.push_back(progress->partly_read_tokens);
    return tokens;
  }
  std::uint64_t reads() const { return node->store->counters().reads; }

  std::unique_ptr<std::byte, void (*)(void*)> memory{
      static_cast<std::byte*>(std::aligned_alloc(4096, 2 * slots * 4096)), std::free};
  std::shared_ptr<node_devices> node = std::make_shared<node_devices>();
  std::shared_ptr<dualpath::testing::faulty_store> disk; ///< the node's store
  peer directory{system}, leader{system};
  std::array<peer, 2> engines{peer{system}, peer{system}};
  core::block_key parent;
  std::vector<core::block_key> keys;
  proto::storage_nic_actor nic;
};

} // namespace

TEST_CASE("blocks behind a bad one are not read, and the bad one is reported", "[storage_nic]") {
  nic_world w{1};
  for (std::uint32_t block : {0, 1, 3, 4, 5}) w.write(block);
  w.advance(8 * latency);
  CHECK(w.directory.drop_all<proto::block_stored>() == 5);
  w.read({0, 1, 2, 3, 4, 5});
  w.advance(8 * latency);
  auto answer = w.engines[0].next<proto::blocks_read>();
  REQUIRE(answer);
  CHECK(answer->good_blocks == 2);
  CHECK(w.reads() == 2);
  CHECK(w.node->store->counters().missing == 1);
  auto lost = w.directory.next<proto::block_lost>();
  REQUIRE(lost);
  CHECK(lost->key == w.keys[2]);
  CHECK_FALSE(w.directory.next<proto::block_lost>());
  CHECK(w.node->counters->blocks_missing == 1);
  CHECK(w.pool_of(0)[w.settings->slot_bytes] == std::byte{2});
  CHECK(w.reported() == std::vector<std::uint64_t>{4, 8, 12, 0});
}

TEST_CASE("of blocks read side by side only those before the first bad one count", "[storage_nic]") {
  nic_world w{16};
  for (std::uint32_t block : {0, 2, 3}) w.write(block);
  w.advance(2 * latency);
  w.read({0, 1, 2, 3});
  w.advance(2 * latency);
  CHECK(w.engines[0].next<proto::blocks_read>()->good_blocks == 1);
}

TEST_CASE("a read of no blocks is answered", "[storage_nic]") {
  nic_world w;
  w.read({});
  CHECK(w.engines[0].next<proto::blocks_read>()->good_blocks == 0);
}

TEST_CASE("a full store stops writes for a while, never reads, and is tried again", "[storage_nic]") {
  storage::sim_faults faults;
  faults.capacity_bytes = 2 * core::block_layout{2, 4, 8}.full_block_bytes();
  nic_world w{1, faults};
  for (std::uint32_t block : {0, 1, 2}) w.write(block);
  w.advance(4 * latency);
  CHECK(w.engines[0].next<proto::outcome>()->ok);
  CHECK(w.engines[0].next<proto::outcome>()->ok);
  auto refused = w.engines[0].next<proto::outcome>();
  REQUIRE(refused);
  CHECK(refused->code == core::errc::no_space);
  CHECK(w.node->counters->store_full);
  CHECK(w.directory.drop_all<proto::block_stored>() == 2);
  // Now the store is left alone.
  w.write(3);
  w.advance(2 * latency);
  CHECK(w.engines[0].next<proto::outcome>()->code == core::errc::no_space);
  CHECK(w.node->store->counters().no_space == 1);
  w.read({0, 1});
  w.advance(4 * latency);
  CHECK(w.engines[0].next<proto::blocks_read>()->good_blocks == 2);
  // Someone makes room.
  w.node->store->remove(w.keys[0], [](core::result<void>) {});
  w.advance(w.settings->store_retry_interval);
  w.write(3);
  w.advance(2 * latency);
  CHECK(w.engines[0].next<proto::outcome>()->ok);
  CHECK(w.directory.next<proto::block_stored>()->key == w.keys[3]);
}

TEST_CASE("a disk that fails to write is left alone for a while, read meanwhile, and comes back",
          "[storage_nic]") {
  nic_world w;
  w.write(0);
  w.advance(2 * latency);
  CHECK(w.engines[0].next<proto::outcome>()->ok);
  w.disk->writes_fail = true;
  w.write(1);
  CHECK(w.engines[0].next<proto::outcome>()->code == core::errc::io);
  CHECK(w.node->counters->blocks_unwritten == 1);
  CHECK_FALSE(w.node->counters->store_full);
  for (std::uint32_t block : {2, 3, 4}) w.write(block);
  for (int i = 0; i < 3; ++i) CHECK(w.engines[0].next<proto::outcome>()->code == core::errc::io);
  CHECK(w.disk->writes_failed == 1); // the others never reached it
  w.read({0});
  w.advance(2 * latency);
  CHECK(w.engines[0].next<proto::blocks_read>()->good_blocks == 1);
  // Tried again after the interval, and left alone again.
  w.advance(w.settings->store_retry_interval);
  for (std::uint32_t block : {1, 2}) w.write(block);
  CHECK(w.disk->writes_failed == 2);
  CHECK(w.engines[0].drop_all<proto::outcome>() == 2);
  CHECK(w.directory.drop_all<proto::block_stored>() == 1);
  // The disk recovers.
  w.disk->writes_fail = false;
  w.advance(w.settings->store_retry_interval);
  for (std::uint32_t block : {1, 2, 3}) w.write(block);
  w.advance(2 * latency);
  for (int i = 0; i < 3; ++i) CHECK(w.engines[0].next<proto::outcome>()->ok);
  CHECK(w.directory.drop_all<proto::block_stored>() == 3);
  CHECK(w.node->counters->blocks_unwritten == 2);
}

TEST_CASE(
    "a block that fails to be read is told to the engine, counted, and still stored when the disk recovers",
    "[storage_nic]") {
  nic_world w;
  for (std::uint32_t block : {0, 1}) w.write(block);
  w.advance(4 * latency);
  w.disk->reads_fail = true;
  w.read({0, 1});
  w.advance(2 * latency);
  auto answer = w.engines[0].next<proto::blocks_read>();
  REQUIRE(answer);
  CHECK(answer->good_blocks == 0);
  CHECK(answer->unreadable);
  CHECK(w.node->counters->read_errors == w.disk->reads_failed);
  CHECK(w.disk->reads_failed >= 1);
  CHECK(w.node->counters->blocks_corrupt + w.node->counters->blocks_missing == 0);
  // Another side may read them.
  CHECK_FALSE(w.directory.next<proto::block_lost>());
  w.disk->reads_fail = false;
  w.read({0, 1});
  w.advance(2 * latency);
  CHECK(w.engines[0].next<proto::blocks_read>()->good_blocks == 2);
}

TEST_CASE("a read is unreadable where an I/O error ends it, and not where one follows a missing block",
          "[storage_nic]") {
  auto unreadable = GENERATE(1u, 2u);
  auto missing = 3 - unreadable;
  INFO("block " << unreadable << " cannot be read, block " << missing << " is missing");
  nic_world w;
  for (std::uint32_t block : {0u, unreadable}) w.write(block);
  w.advance(4 * latency);
  w.disk->unreadable.insert(w.keys[unreadable]);
  w.read({0, 1, 2});
  w.advance(2 * latency);
  auto answer = w.engines[0].next<proto::blocks_read>();
  REQUIRE(answer);
  CHECK(answer->good_blocks == 1);
  CHECK(answer->unreadable == (unreadable < missing));
}

TEST_CASE("what a store gives up to stay within its capacity leaves the directory", "[storage_nic]") {
  nic_world w{16, {}, 2};
  for (std::uint32_t block : {0, 1}) w.write(block);
  w.advance(4 * latency);
  CHECK(w.directory.drop_all<proto::block_stored>() == 2);
  CHECK_FALSE(w.directory.next<proto::block_lost>());
  w.write(2);
  w.advance(4 * latency);
  auto lost = w.directory.next<proto::block_lost>();
  REQUIRE(lost);
  CHECK(lost->key == w.keys[0]);
  CHECK(w.directory.next<proto::block_stored>()->key == w.keys[2]);
  CHECK_FALSE(w.directory.next<proto::block_lost>());
}

TEST_CASE("an engine is idle only when no read and no write of its memory is under way", "[storage_nic]") {
  nic_world w{2};
  for (std::uint32_t block : {0, 1, 2, 3}) w.write(block);
  w.advance(4 * latency);
  w.drain(0);
  REQUIRE(w.engines[0].next<proto::devices_idle>());
  auto before = w.reads();
  w.read({0, 1, 2, 3}, 0);
  w.read({2, 3}, 1);
  w.drain(0);
  CHECK_FALSE(w.engines[0].next<proto::devices_idle>());
  // Two reads were under way; those still queued are dropped, another engine's are not.
  w.advance(latency);
  CHECK(w.engines[0].next<proto::devices_idle>());
  w.advance(4 * latency);
  CHECK(w.reads() == before + 2 + 2);
  CHECK_FALSE(w.engines[0].next<proto::blocks_read>());
  CHECK(w.engines[1].next<proto::blocks_read>()->good_blocks == 2);
  CHECK(w.reported().back() == 0);
}

TEST_CASE("writes of a dying engine that have not begun are dropped, and one that has is waited for",
          "[storage_nic]") {
  nic_world w{1};
  w.write(0);
  w.write(1);
  w.drain(0);
  CHECK_FALSE(w.engines[0].next<proto::devices_idle>());
  w.advance(latency);
  CHECK(w.engines[0].next<proto::devices_idle>());
  w.advance(4 * latency);
  CHECK(w.directory.drop_all<proto::block_stored>() == 1);
  CHECK(w.node->store->counters().writes == 1);
}

TEST_CASE("a read that the store does not answer in time is told, and answered when it really ends",
          "[storage_nic]") {
  nic_world w{2, {}, 0, 4 * short_deadline, short_deadline};
  for (std::uint32_t block : {0, 1, 2, 3}) w.write(block);
  w.advance(20 * short_deadline);
  w.engines[0].drop_all<proto::outcome>();
  w.read({0, 1, 2, 3});
  w.read({0}, 1);
  CHECK_FALSE(w.engines[0].next<proto::read_overdue>());
  w.advance(short_deadline + short_deadline / 2);
  auto told = w.engines[0].next<proto::read_overdue>();
  REQUIRE(told);
  CHECK(told->epoch == core::epoch{7});
  CHECK_FALSE(w.engines[0].next<proto::read_overdue>());
  // The queue goes on without it: the next read has been issued, blocks three and four have not.
  CHECK(w.node->counters->storage_overdue >= 2);
  CHECK_FALSE(w.engines[0].next<proto::blocks_read>());
  w.drain(0);
  CHECK_FALSE(w.engines[0].next<proto::devices_idle>());
  w.advance(4 * short_deadline);
  CHECK(w.engines[0].next<proto::devices_idle>());
  w.advance(8 * short_deadline);
  CHECK(w.reads() == 3);
  CHECK(w.engines[1].next<proto::blocks_read>());
}

TEST_CASE(
    "a store is given up by name once requests miss memory that it holds beyond a deadline, and not before",
    "[storage_nic]") {
  nic_world w{2, {}, 0, 40 * short_deadline, short_deadline};
  caf::scoped_actor watcher{w.system};
  watcher->monitor(w.nic);
  auto end = [&] {
    std::optional<std::string> why;
    watcher->receive([&](const caf::down_msg& down) { why = w.system.render(down.reason); },
                     caf::after(std::chrono::seconds{0}) >> [] {});
    return why;
  };
  auto miss = [&](std::uint32_t engine) {
    w.engines[engine].send(w.nic, proto::slots_overdue{core::engine_id{engine}});
    w.run();
  };
  w.read({0});
  miss(0); // the read is in time
  w.advance(2 * short_deadline);
  REQUIRE(w.engines[0].next<proto::read_overdue>());
  miss(1); // another engine's memory is no business of that read
  CHECK_FALSE(end());
  SECTION("an engine tells") { miss(0); }
  SECTION("an engine cannot be restarted over its memory") {
    w.drain(0);
    w.advance(3 * short_deadline);
    CHECK_FALSE(end());
    w.advance(3 * short_deadline);
  }
  auto why = end();
  REQUIRE(why);
  REQUIRE_FALSE(w.node->store->describe().empty());
  CHECK_THAT(*why, Catch::Contains("does not answer") && Catch::Contains("engine 0")
                       && Catch::Contains(w.node->store->describe()));
}

TEST_CASE("reads are paced to the bandwidth of the storage NIC", "[storage_nic]") {
  nic_world w;
  for (std::uint32_t block = 0; block < 8; ++block) w.write(block);
  w.advance(2 * latency);
  auto started = [&](double bytes_per_s) {
    auto settings = std::make_shared<cluster_settings>(*w.settings);
    settings->snic_bytes_per_s = bytes_per_s;
    w.nic = w.system.spawn(storage_nic, settings_ptr{settings}, std::shared_ptr<const node_devices>{w.node},
                           w.directory.as<proto::directory_actor>(), w.leader.as<proto::leader_actor>());
    w.read({0, 1, 2, 3, 4, 5, 6, 7});
    int waits = 0;
    while (!w.engines[0].next<proto::blocks_read>()) {
      REQUIRE(++waits < 10000);
      w.advance(std::chrono::milliseconds{1});
    }
    return waits;
  };
  auto block_bytes = static_cast<double>(w.settings->layout.full_block_bytes());
  auto unlimited = started(0);
  // Eight blocks at ten blocks a second: seven tenths of a second after the first.
  auto paced = started(10 * block_bytes);
  CHECK(paced - unlimited >= 690);
  CHECK(paced - unlimited <= 710);
}

TEST_CASE(
    "reads that come first are answered first, except that with split reads short ones overtake long ones",
    "[storage_nic]") {
  auto policy = GENERATE(core::policy::dualpath, core::policy::split);
  INFO("policy " << to_string(policy));
  nic_world w{1};
  for (std::uint32_t block = 0; block < 12; ++block) w.write(block);
  w.advance(20 * latency);
  auto settings = std::make_shared<cluster_settings>(*w.settings);
  settings->policy = policy;
  w.nic = w.system.spawn(storage_nic, settings_ptr{settings}, std::shared_ptr<const node_devices>{w.node},
                         w.directory.as<proto::directory_actor>(), w.leader.as<proto::leader_actor>());
  w.read({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 0);
  w.advance(2 * latency);
  w.read({10}, 1);
  auto split = policy == core::policy::split;
  w.advance(4 * latency);
  auto short_one = w.engines[1].next<proto::blocks_read>();
  CHECK(short_one.has_value() == split);
  CHECK_FALSE(w.engines[0].next<proto::blocks_read>());
  w.advance(10 * latency);
  CHECK(w.engines[0].next<proto::blocks_read>()->good_blocks == 10);
  if (!split) CHECK(w.engines[1].next<proto::blocks_read>()->good_blocks == 1);
}

// A real prefill or decode engine among actors played by the test: its storage NIC reads when told to, its
// peers are mailboxes.
#pragma once

#include "actor_world.hpp"
#include "actors/buffer_pool.hpp"
#include "actors/decode_engine.hpp"
#include "actors/prefill_engine.hpp"

#include <catch2/catch.hpp>

#include <deque>

namespace dualpath::actors::testing::lone_engine {

using slot_list = std::vector<std::uint32_t>;
inline constexpr std::uint32_t context_tokens = 14, context_blocks = 4, hit_blocks = 3;

struct plain_memory final : kernels::device_memory {
  std::span<std::byte> bytes() override { return memory; }
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
};

/// Added to the good blocks of a read: the next one met an I/O error.
inline constexpr std::uint64_t unreadable_flag = std::uint64_t{1} << 32;

/// A storage NIC that reads when the test says so.
struct pending_read {
  proto::read_blocks ask;
  caf::typed_response_promise<proto::blocks_read> answer;
};
using pending_reads = std::shared_ptr<std::deque<pending_read>>;

inline proto::storage_nic_actor::behavior_type
scripted_nic(proto::storage_nic_actor::pointer self, pending_reads reads, std::shared_ptr<int> misses) {
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
        auto good_blocks = static_cast<std::uint32_t>(end.id);
        answer.deliver(proto::blocks_read{good_blocks, (end.id & unreadable_flag) != 0});
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
  core::shared_keys read(std::uint32_t good_blocks, bool unreadable = false) {
    REQUIRE_FALSE(reads->empty());
    auto blocks_asked = reads->front().ask.keys;
    scheduler.send(nic, proto::tick{good_blocks + (unreadable ? unreadable_flag : 0)});
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
  void accept(std::uint64_t epoch, std::uint32_t decode, core::read_split hits, std::uint64_t id = 1,
              core::failed_reads failed = {}) {
    proto::request request;
    request.id = core::request_id{id};
    request.epoch = core::epoch{epoch};
    request.context = std::vector<core::token_id>(context_tokens, 7);
    request.keys = keys;
    request.hits = hits;
    request.failed_reads = failed;
    request.attempt = attempt;
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
  std::uint32_t attempt = 1;          ///< of requests to come
  peer first{system}, second{system}; ///< decode engines 2 and 3
};

} // namespace dualpath::actors::testing::lone_engine

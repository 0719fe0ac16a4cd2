// What the UCX fabric promises across processes, and when one of them dies or stands still.
#include "holdings.hpp"
#include "peer_process.hpp"

#include "net/ucx_fabric.hpp"

#include <algorithm>
#include <thread>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

const std::uint64_t size = bulk(64 << 20);

/// A fabric here, connected to a peer in a process of its own.
struct two_processes {
  two_processes(const std::string& name, const std::string& memory)
      : around{make_world(name)},
        transports{transports_of(name)},
        peer{transports, memory, size},
        here{around->open(engine(1))} {
    auto allocated = here->allocate(size);
    REQUIRE(allocated);
    local = *allocated;
    join();
  }
  void join() {
    auto connected = connect(*around, *here, peer.address);
    if (!connected) FAIL(connected.error().text);
    id = *connected;
    auto imported = here->import_region(id, peer.region);
    REQUIRE(imported);
    remote = *imported;
  }
  transfer moving(std::uint64_t offset, std::uint64_t bytes) {
    return {id, lane::kv, local.id, remote, {{offset, 0, offset, 0, bytes, 1}}, around->soon()};
  }
  bool all(std::uint64_t offset, std::uint64_t bytes, int value) {
    auto part = local.bytes.subspan(offset, bytes);
    return std::all_of(part.begin(), part.end(), [&](auto b) { return b == static_cast<std::byte>(value); });
  }

  std::unique_ptr<world> around;
  std::string transports;
  peer_process peer;
  std::unique_ptr<fabric> here;
  memory_region local;
  peer_id id;
  remote_region_id remote;
};

std::string any_transport() {
  if (const char* only = std::getenv("DUALPATH_TEST_FABRIC")) return only;
  return GENERATE(as<std::string>{}, "tcp", "shared memory");
}
std::string any_memory() { return GENERATE(as<std::string>{}, "allocated", "attached"); }

} // namespace

TEST_CASE("put and get move bytes between processes") {
  two_processes both{any_transport(), any_memory()};
  std::fill(both.local.bytes.begin(), both.local.bytes.end(), std::byte{3});
  REQUIRE_FALSE(put(*both.around, *both.here, both.moving(0, size)));
  CHECK(both.peer.ask("sum") == std::to_string(3 * size));
  REQUIRE(both.peer.ask("fill 5") == "ok");
  REQUIRE_FALSE(get(*both.around, *both.here, both.moving(4096, size / 2)));
  CHECK(both.all(4096, size / 2, 5));
  CHECK(both.all(0, 4096, 3));
}

TEST_CASE("when a peer is killed, what is in flight resolves, it is reported down and memory is free again") {
  auto transport = any_transport(), memory = any_memory();
  INFO(transport << ", " << memory);
  two_processes both{transport, memory};
  outcome<std::string> downs;
  both.here->on_peer_down([downs](peer_id, std::string why) mutable { downs.set(why); });
  outcome<ending> ends;
  constexpr unsigned count = 200;
  for (unsigned i = 0; i < count; ++i) {
    auto t = both.moving(0, size);
    if (i % 2 == 0) {
      both.here->get(t, into(ends));
    } else {
      both.here->put(t, into(ends));
    }
  }
  both.around->await(ends, 1);
  both.peer.kill();
  unsigned failed = 0;
  for (auto& end : both.around->await(ends, count)) {
    if (!end) continue;
    ++failed;
    INFO(end->text);
    CHECK(end->code == core::errc::disconnected);
  }
  // Memory mapped from the dead process still takes puts and gets; whoever owned it is told below.
  INFO(failed << " of " << count << " failed");
  CHECK(both.around->await(downs)[0].find("engine 2") != std::string::npos);
  std::fill(both.local.bytes.begin(), both.local.bytes.end(), std::byte{9});
  auto late = put(*both.around, *both.here, both.moving(0, 4096));
  REQUIRE(late);
  CHECK(late->code == core::errc::disconnected);
  CHECK(both.all(0, size, 9));

  // Over RDMA nobody says that there is no such process: the deadline ends it.
  outcome<core::result<peer_id>> box;
  both.here->connect(both.peer.address, both.around->clock().now() + 5s,
                     [box](auto peer) mutable { box.set(std::move(peer)); });
  auto gone = both.around->await(box)[0];
  REQUIRE_FALSE(gone);
  CHECK((gone.error().code == core::errc::disconnected || gone.error().code == core::errc::timed_out));
}

TEST_CASE("a peer that dies while nothing is under way is reported down") {
  two_processes both{any_transport(), "allocated"};
  outcome<std::string> downs;
  both.here->on_peer_down([downs](peer_id, std::string why) mutable { downs.set(why); });
  REQUIRE_FALSE(put(*both.around, *both.here, both.moving(0, 4096)));
  both.peer.kill();
  CHECK(both.around->await(downs)[0].find("engine 2") != std::string::npos);
}

TEST_CASE("a get from a peer that stands still times out, never writes late, and the lane comes back") {
  two_processes both{any_transport(), "attached"};
  REQUIRE(both.peer.ask("fill 5") == "ok");
  REQUIRE_FALSE(get(*both.around, *both.here, both.moving(0, 4096)));
  both.peer.stop();
  outcome<ending> ends;
  const std::uint64_t half = size / 2;
  for (std::uint64_t i = 0; i < 8; ++i) {
    auto t = both.moving(i * half / 8, half / 8);
    t.deadline = both.around->clock().now() + (i == 0 ? 300ms : 20s);
    both.here->get(t, into(ends));
  }
  unsigned timed_out = 0;
  for (auto& end : both.around->await(ends, 8)) {
    REQUIRE(end);
    timed_out += end->code == core::errc::timed_out;
    CHECK((end->code == core::errc::timed_out || end->code == core::errc::disconnected));
  }
  CHECK(timed_out == 1);
  std::fill(both.local.bytes.begin(), both.local.bytes.end(), std::byte{9});
  both.peer.signal(SIGCONT);
  // Once this get is through, the peer has seen, and answered, everything sent before it stood still.
  auto end = get(*both.around, *both.here, both.moving(half, half));
  INFO((end ? end->text : "done"));
  REQUIRE_FALSE(end);
  CHECK(both.all(half, half, 5));
  CHECK(both.all(0, half, 9));
  CHECK(both.here->counters()[static_cast<std::size_t>(lane::kv)].timed_out == 1);
}

TEST_CASE("connecting to a process that stands still ends at the deadline") {
  auto name = any_transport();
  auto around = make_world(name);
  peer_process peer{transports_of(name), "allocated", 4096};
  auto here = around->open(engine(1));
  peer.stop();
  outcome<core::result<peer_id>> box;
  here->connect(peer.address, around->clock().now() + 300ms, [box](auto peer) mutable { box.set(peer); });
  auto end = around->await(box)[0];
  REQUIRE_FALSE(end);
  CHECK(end.error().code == core::errc::timed_out);
  peer.signal(SIGCONT);
  CHECK(connect(*around, *here, peer.address));
}

TEST_CASE("an idle fabric sleeps") {
  two_processes both{any_transport(), "allocated"};
  REQUIRE_FALSE(put(*both.around, *both.here, both.moving(0, size)));
  REQUIRE_FALSE(get(*both.around, *both.here, both.moving(0, size)));
  auto before = ucx_wake_ups(*both.here);
  std::this_thread::sleep_for(500ms); // the measured interval
  auto woken = ucx_wake_ups(*both.here) - before;
  CHECK(woken < 200); // keepalives and late discards; a spinning lane would wake a hundred thousand times
}

TEST_CASE("memory mapped from a peer is unmapped when the peer dies") {
  two_processes both{"shared memory", "allocated"};
  outcome<std::string> downs;
  both.here->on_peer_down([downs](peer_id, std::string why) mutable { downs.set(why); });
  auto before = count_holdings().shared_mappings;
  REQUIRE_FALSE(put(*both.around, *both.here, both.moving(0, size)));
  CHECK(count_holdings().shared_mappings > before);
  both.peer.kill();
  both.around->await(downs);
  CHECK(both.around->let_run([&](std::chrono::milliseconds limit) {
    auto end = std::chrono::steady_clock::now() + limit;
    while (count_holdings().shared_mappings > before && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return count_holdings().shared_mappings <= before;
  }));
}

TEST_CASE("a lane that flaps comes back to its old throughput") {
  auto transport = any_transport(), memory = any_memory();
  INFO(transport << ", " << memory);
  // How the machine has changed meanwhile shows a lane that never flaps. Its memory lies elsewhere, and may
  // be faster or slower for good: so the two are compared before as well.
  two_processes flapping{transport, memory}, steady{transport, memory};
  auto seconds = [](two_processes& both) {
    outcome<ending> ends;
    constexpr unsigned count = 64;
    auto begin = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < count; ++i)
      both.here->put(both.moving(i * (size / count), size / count), into(ends));
    for (auto& end : both.around->await(ends, count))
      if (end) FAIL(end->text);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  auto times_of_steady = [&](double enough) {
    auto at_rest = seconds(steady), other = seconds(flapping);
    for (int i = 0; i < 40 && (i < 8 || other > enough * at_rest); ++i) {
      at_rest = std::min(at_rest, seconds(steady));
      other = std::min(other, seconds(flapping));
    }
    return other / at_rest;
  };
  auto before = times_of_steady(1);
  for (int i = 0; i < 20; ++i) {
    outcome<ending> ends;
    for (int k = 0; k < 8; ++k) flapping.here->put(flapping.moving(0, size / 8), into(ends));
    flapping.here->disconnect(flapping.id);
    flapping.around->await(ends, 8);
    flapping.join();
  }
  auto after = times_of_steady(1.25 * before);
  INFO("64 MiB took " << after << " times as long as on the lane that never flapped, before " << before);
  CHECK(after <= 1.5 * before);
}

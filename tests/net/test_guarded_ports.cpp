// What becomes of those who connect to UCX's own ports: peers of the cluster are let in, nobody else is.
#include "peer_process.hpp"
#include "world.hpp"

#include "net/connection_proof.hpp"
#include "net/socket_guard.hpp"
#include "net/ucx_fabric.hpp"

#include "../support/strangers.hpp"

#include <cstring>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;
using dualpath::testing::listeners_of;
using dualpath::testing::stranger;
namespace ucx_wire = dualpath::testing::ucx_wire;

namespace {

constexpr std::uint64_t memory_bytes = 1 << 20;

using fabric_settings = std::vector<std::pair<std::string, std::string>>;

/// A peer in a process of its own, all of whose lanes serve a fabric here.
struct served_peer {
  explicit served_peer(fabric_settings settings = {}) : here{open(1, cluster_secret, std::move(settings))} {
    auto connected = reach(*here, peer.address);
    if (!connected) FAIL(connected.error().text);
    id = *connected;
    auto allocated = here->allocate(memory_bytes);
    REQUIRE(allocated);
    local = *allocated;
    auto imported = here->import_region(id, peer.region);
    REQUIRE(imported);
    remote = *imported;
    check_service(1);
  }

  std::unique_ptr<fabric> open(std::uint32_t number, const std::string& secret,
                               fabric_settings settings = {}) {
    ucx_fabric_options options;
    options.clock = &clock;
    options.self = engine(number);
    options.transports = "tcp";
    options.secret = secret;
    options.settings = std::move(settings);
    auto opened = open_ucx_fabric(std::move(options));
    if (!opened) FAIL(opened.error().text);
    return std::move(*opened);
  }

  outcome<core::result<peer_id>> start_reaching(fabric& from, const std::vector<std::byte>& address) {
    outcome<core::result<peer_id>> box;
    from.connect(address, clock.now() + 20s, [box](auto found) mutable { box.set(std::move(found)); });
    return box;
  }
  core::result<peer_id> reach(fabric& from, const std::vector<std::byte>& address) {
    auto box = start_reaching(from, address);
    REQUIRE(box.wait_for(1, 30s));
    return box.values().front();
  }

  /// Bytes written on every lane arrive.
  void check_service(unsigned char value) {
    std::fill(local.bytes.begin(), local.bytes.end(), std::byte{value});
    for (auto on : {lane::kv, lane::collective}) {
      outcome<ending> box;
      auto half = memory_bytes / 2, from = on == lane::kv ? 0 : half;
      here->put({id, on, local.id, remote, {{from, 0, from, 0, half, 1}}, clock.now() + 20s}, into(box));
      REQUIRE(box.wait_for(1, 30s));
      if (auto end = box.values().front()) FAIL(end->text);
    }
    CHECK(peer.ask("sum") == std::to_string(value * memory_bytes));
  }
  std::uint64_t refused() { return std::stoull(peer.ask("refused")); }

  core::steady_clock clock;
  peer_process peer{"tcp", "allocated", memory_bytes};
  std::unique_ptr<fabric> here;
  memory_region local;
  peer_id id;
  remote_region_id remote;
};

std::string proof_of(const std::string& secret, const sockaddr_in& to) {
  sockaddr_storage address{};
  std::memcpy(&address, &to, sizeof to);
  auto proof = connection_prover{secret}.make(address);
  REQUIRE(proof);
  return {reinterpret_cast<const char*>(proof->data()), proof->size()};
}

std::string greeting() { return ucx_wire::magic() + ucx_wire::request(0); }

std::string fate_of(const sockaddr_in& listener, const std::string& bytes) {
  stranger outside{listener};
  REQUIRE(outside.connected());
  outside.say(bytes);
  return outside.outcome();
}

} // namespace

TEST_CASE("UCX alone answers whoever speaks its wire format") {
  peer_process open{"tcp", "allocated", 4096, ""};
  auto listeners = listeners_of(open.pid());
  REQUIRE(listeners.size() >= lane_count);
  for (auto& listener : listeners) CHECK(fate_of(listener, greeting()) == "answered");
}

TEST_CASE("whoever does not prove the secret first is closed by UCX's ports, and nothing else is") {
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  served_peer both;
  auto listeners = listeners_of(both.peer.pid());
  REQUIRE(listeners.size() >= lane_count);
  std::uint64_t outsiders = 0;
  for (auto& listener : listeners) {
    auto elsewhere = listener;
    elsewhere.sin_port ^= htons(1);
    auto proof = proof_of(cluster_secret, listener);
    std::vector<std::string> openings{
        ucx_wire::raw(random()),
        greeting(),
        greeting() + ucx_wire::wild_put(),
        proof.substr(0, proof_bytes / 2),
        proof.substr(0, proof_bytes - 1),
        proof_of("another secret", listener) + greeting(),
        proof_of(cluster_secret, elsewhere) + greeting(),
    };
    for (int i = 0; i < 20; ++i) openings.push_back(ucx_wire::gone_wrong(random));
    for (auto& opening : openings) {
      CHECK(fate_of(listener, opening) == "closed");
      ++outsiders;
    }
    both.check_service(static_cast<unsigned char>(outsiders));
  }
  CHECK(both.refused() == outsiders);
}

TEST_CASE("a proof lets one connection in, at one port, and is worthless once it was used") {
  served_peer both;
  for (auto& listener : listeners_of(both.peer.pid())) {
    auto opening = proof_of(cluster_secret, listener) + greeting();
    CHECK(fate_of(listener, opening) == "answered");
    CHECK(fate_of(listener, opening) == "closed");
  }
  both.check_service(2);
}

TEST_CASE("connections that say nothing do not reach a process, and are in nobody's way") {
  served_peer both;
  auto before = dualpath::testing::sockets_of(both.peer.pid());
  std::vector<std::unique_ptr<stranger>> silent;
  for (auto& listener : listeners_of(both.peer.pid()))
    for (int i = 0; i < 20; ++i) {
      silent.push_back(std::make_unique<stranger>(listener));
      REQUIRE(silent.back()->connected());
      CHECK(fate_of(listener, "x") == "closed"); // by the thread that would have accepted the silent one
    }
  CHECK(dualpath::testing::sockets_of(both.peer.pid()) == before);
  both.check_service(2);
  auto again = both.open(3, cluster_secret);
  CHECK(both.reach(*again, both.peer.address));
}

TEST_CASE("a peer with another secret is refused at once, and tries only so often") {
  served_peer both;
  auto outside = both.open(3, "another secret");
  auto failed = both.reach(*outside, both.peer.address);
  REQUIRE_FALSE(failed);
  CHECK(tells(failed.error(), core::errc::disconnected, "engine 2"));
  outside.reset();
  auto tried = both.refused();
  CHECK(tried > 0);
  CHECK(tried <= 30); // UCX gives up after 25 times
}

TEST_CASE("peers meet where UCX does not wait for its connections either") {
  served_peer both{{{"CONN_NB", "y"}}};
  both.check_service(2);
  both.peer.kill();
  auto failed = both.reach(*both.open(3, cluster_secret, {{"CONN_NB", "y"}}), both.peer.address);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == core::errc::disconnected);
}

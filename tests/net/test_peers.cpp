// What every fabric promises about peers and messages; run over each of them.
#include "world.hpp"

#include "net/ucx_fabric.hpp"

#include "net/wire.hpp"

#include <algorithm>
#include <map>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

struct letter {
  peer_id from;
  lane on;
  message what;
};

outcome<letter> letters_of(fabric& at) {
  outcome<letter> box;
  at.on_message([box](peer_id from, lane on, message m) mutable { box.set({from, on, std::move(m)}); });
  return box;
}

outcome<std::pair<peer_id, std::string>> downs_of(fabric& at) {
  outcome<std::pair<peer_id, std::string>> box;
  at.on_peer_down([box](peer_id peer, std::string why) mutable { box.set({peer, std::move(why)}); });
  return box;
}

/// Nothing waits for its deadline when its connection is gone. Only operations whose deadline is far are
/// looked at.
void none_at_their_deadline(const std::vector<outcome<ending>>& ends,
                            const std::vector<std::size_t>& patient) {
  for (auto i : patient) {
    auto end = ends[i].values()[0];
    INFO("operation " << i << ": " << (end ? end->text : "done"));
    CHECK((!end || end->code != core::errc::timed_out));
  }
}

} // namespace

TEST_CASE("a pair that does not fit is refused by name, on both sides") {
  FOR_EVERY_WORLD(around);
  struct misfit {
    const char* what;
    std::function<void(identity&)> change;
    const char* text;
  };
  auto which = GENERATE(0, 1, 2, 3);
  const misfit misfits[] = {
      {"block size", [](identity& who) { who.layout.block_tokens = 32; }, "has block size 32, ours is 64"},
      {"layers", [](identity& who) { who.layout.layers = 5; }, "has layer count 5, ours is 4"},
      {"token bytes", [](identity& who) { who.layout.token_bytes = 656; },
       "has KV bytes per layer and token 656"},
      {"model", [](identity& who) { who.model.bytes[0] = 9; },
       "has model fingerprint 09000000000000000000000000000000"},
  };
  auto& misfit = misfits[which];
  auto other = engine(3);
  misfit.change(other);
  auto a = around.open(engine(1));
  auto b = around.open(other);
  auto refused = connect(around, *a, *b);
  REQUIRE_FALSE(refused);
  CHECK(tells(refused.error(), core::errc::refused, "peer engine 3"));
  CHECK(tells(refused.error(), core::errc::refused, misfit.text));

  // An address that hides the difference gets as far as the peer, which refuses, and the answer names it
  // again.
  auto forged = wire::decode_address(b->address());
  REQUIRE(forged);
  auto instance = forged->sender.who.instance;
  forged->sender.who = engine(3);
  forged->sender.who.instance = instance;
  refused = connect(around, *a, wire::encode(*forged));
  REQUIRE_FALSE(refused);
  CHECK(tells(refused.error(), core::errc::refused, misfit.text));
}

TEST_CASE("a peer of another protocol version is refused by name") {
  FOR_EVERY_WORLD(around);
  auto a = around.open(engine(1)), b = around.open(engine(2));
  auto newer = wire::decode_address(b->address());
  REQUIRE(newer);
  newer->sender.version = wire::protocol_version + 1;
  auto refused = connect(around, *a, wire::encode(*newer));
  REQUIRE_FALSE(refused);
  CHECK(tells(refused.error(), core::errc::refused, "peer engine 2 has protocol version 2, ours is 1"));
}

TEST_CASE("an address of an earlier process is refused, and the present one connects") {
  FOR_EVERY_WORLD(around);
  auto a = around.open(engine(1)), b = around.open(engine(2));
  auto stale = wire::decode_address(b->address());
  REQUIRE(stale);
  stale->sender.who.instance = 77;
  auto refused = connect(around, *a, wire::encode(*stale));
  REQUIRE_FALSE(refused);
  CHECK(tells(refused.error(), core::errc::refused, "names instance 77 of engine 2"));
  CHECK(connect(around, *a, *b));
}

TEST_CASE("a damaged address is refused before anything is sent") {
  FOR_EVERY_WORLD(around);
  auto a = around.open(engine(1)), b = around.open(engine(2));
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  auto good = b->address();
  for (int i = 0; i < 300; ++i) {
    auto bad = good;
    bad[random() % bad.size()] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    auto read = wire::decode_address(bad);
    if (!read) CHECK(read.error().code == core::errc::invalid_argument);
  }
  auto truncated = good;
  truncated.resize(truncated.size() / 16 * 8);
  auto refused = connect(around, *a, truncated);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == core::errc::invalid_argument);
  CHECK(connect(around, *a, good));
}

TEST_CASE("messages arrive whole and in order on their lane, and a connected peer can answer") {
  FOR_EVERY_WORLD(around);
  auto a = around.open(engine(1)), b = around.open(engine(2));
  auto at_a = letters_of(*a), at_b = letters_of(*b);
  auto b_at_a = connect(around, *a, *b);
  REQUIRE(b_at_a);
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  std::vector<std::size_t> sizes{0, 1, 100, 5000, 70'000, 300'000, 1'000'000};
  std::map<lane, std::vector<std::vector<std::byte>>> sent;
  outcome<ending> ends;
  for (std::uint16_t i = 0; i < 42; ++i) {
    auto on = static_cast<lane>(i % lane_count);
    sent[on].push_back(random_bytes(sizes[i % sizes.size()], random));
    a->send(*b_at_a, on, {i, sent[on].back()}, around.soon(), into(ends));
  }
  for (auto& end : around.await(ends, 42)) {
    if (end) FAIL(end->text);
  }
  auto got = around.await(at_b, 42);
  std::map<lane, std::size_t> next;
  for (auto& each : got) {
    auto& expected = sent[each.on];
    auto i = next[each.on]++;
    REQUIRE(i < expected.size());
    CHECK(each.what.payload == expected[i]);
    CHECK(each.what.kind % lane_count == static_cast<std::size_t>(each.on));
  }
  // b never called connect: it knows a from the handshake.
  outcome<ending> answered;
  b->send(got[0].from, lane::control, {500, {std::byte{5}}}, around.soon(), into(answered));
  CHECK_FALSE(around.await(answered)[0]);
  auto answer = around.await(at_a);
  CHECK(answer[0].what.kind == 500);
  CHECK(answer[0].from == *b_at_a);
  CHECK(a->counters()[static_cast<std::size_t>(lane::control)].messages == 14);
}

TEST_CASE("connecting twice, and from both sides at once, gives one peer") {
  FOR_EVERY_WORLD(around);
  auto a = around.open(engine(1)), b = around.open(engine(2));
  outcome<core::result<peer_id>> from_a, from_b;
  for (int i = 0; i < 4; ++i) {
    a->connect(b->address(), around.soon(), [=](auto peer) mutable { from_a.set(peer); });
    b->connect(a->address(), around.soon(), [=](auto peer) mutable { from_b.set(peer); });
  }
  for (auto& box : {from_a, from_b}) {
    auto peers = around.await(box, 4);
    for (auto& peer : peers) {
      if (!peer) FAIL(peer.error().text);
      CHECK(*peer == *peers[0]);
    }
  }
}

TEST_CASE("a disconnect fails what is in flight, is told to the peer, and the pair can connect again") {
  FOR_EVERY_WORLD(around);
  pair_of_fabrics pair{around, 32 << 20};
  auto downs = downs_of(*pair.b);
  constexpr unsigned count = 50;
  outcome<ending> ends;
  for (unsigned i = 0; i < count; ++i) {
    pair.a->get(pair.from_a({{0, 0, 0, 0, 32 << 20, 1}}, i % 2 == 0 ? lane::kv : lane::collective),
                into(ends));
  }
  pair.a->disconnect(pair.b_at_a);
  unsigned failed = 0;
  for (auto& end : around.await(ends, count)) {
    if (!end) continue;
    ++failed;
    CHECK(tells(*end, core::errc::disconnected, ""));
  }
  CHECK(failed > 0);
  auto told = around.await(downs);
  CHECK(told[0].first == pair.a_at_b);
  CHECK(told[0].second.find("engine 1") != std::string::npos);
  auto refused = put(around, *pair.a, pair.from_a({{0, 0, 0, 0, 16, 1}}));
  REQUIRE(refused);
  CHECK(tells(*refused, core::errc::disconnected, "not connected"));

  auto again = connect(around, *pair.a, *pair.b);
  REQUIRE(again);
  CHECK(*again == pair.b_at_a); // the same process is the same peer, its exported memory is still known
  CHECK_FALSE(put(around, *pair.a, pair.from_a({{0, 0, 0, 0, 1 << 20, 1}})));
  CHECK_FALSE(put(around, *pair.b, pair.from_b({{0, 0, 0, 0, 1 << 20, 1}})));
}

TEST_CASE("an engine without the cluster's secret is refused before anything else of it counts") {
  core::steady_clock clock;
  auto open = [&](std::uint32_t number, const std::string& secret) {
    ucx_fabric_options options;
    options.clock = &clock;
    options.self = engine(number);
    options.transports = "tcp,self";
    options.secret = secret;
    auto opened = open_ucx_fabric(std::move(options));
    REQUIRE(opened);
    return std::move(*opened);
  };
  auto reach = [&](fabric& from, fabric& to) {
    outcome<core::result<peer_id>> box;
    from.connect(to.address(), clock.now() + 20s, [box](auto peer) mutable { box.set(std::move(peer)); });
    REQUIRE(box.wait_for(1, 30s));
    return box.values().front();
  };
  auto member = open(1, "the secret"), other = open(2, "the secret");
  auto stranger = open(3, "another one"), nobody = open(4, "");
  CHECK(reach(*other, *member));
  for (auto* outside : {stranger.get(), nobody.get()}) {
    auto refused = reach(*outside, *member);
    REQUIRE_FALSE(refused);
    CHECK(tells(refused.error(), core::errc::refused, "does not hold the secret"));
  }
}

TEST_CASE("an engine that is cut off cannot touch memory any more, nor come back") {
  FOR_EVERY_WORLD(around);
  pair_of_fabrics pair{around, 32 << 20};
  constexpr unsigned count = 30;
  outcome<ending> ends;
  for (unsigned i = 0; i < count; ++i) pair.a->put(pair.from_a({{0, 0, 0, 0, 32 << 20, 1}}), into(ends));
  outcome<bool> fenced;
  pair.b->cut(engine(1).engine, [fenced]() mutable { fenced.set(true); });
  around.await(fenced);
  for (auto& end : around.await(ends, count))
    if (end) CHECK(end->code == core::errc::disconnected);
  auto again = connect(around, *pair.a, *pair.b);
  REQUIRE_FALSE(again);
  CHECK(tells(again.error(), core::errc::refused, "cut"));
  CHECK(put(around, *pair.a, pair.from_a({{0, 0, 0, 0, 16, 1}})));
  CHECK(fenced.count() == 1);
}

TEST_CASE("a peer that closes is reported down, and what was in flight with it fails") {
  FOR_EVERY_WORLD(around);
  pair_of_fabrics pair{around, 32 << 20};
  auto downs = downs_of(*pair.a);
  constexpr unsigned count = 40;
  outcome<ending> ends;
  for (unsigned i = 0; i < count; ++i) pair.a->get(pair.from_a({{0, 0, 0, 0, 32 << 20, 1}}), into(ends));
  pair.b.reset();
  for (auto& end : around.await(ends, count)) {
    if (end) CHECK(tells(*end, core::errc::disconnected, ""));
  }
  CHECK(around.await(downs)[0].first == pair.b_at_a);
  CHECK(downs.count() == 1);
  // Its successor is another peer.
  auto next = engine(2);
  next.instance = 0x9999;
  pair.b = around.open(next);
  auto successor = connect(around, *pair.a, *pair.b);
  REQUIRE(successor);
  CHECK(*successor != pair.b_at_a);
}

TEST_CASE("under random operations, disconnects and reconnects every completion runs exactly once") {
  FOR_EVERY_WORLD(around);
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  pair_of_fabrics pair{around, 4 << 20};
  std::vector<outcome<ending>> ends;
  std::vector<std::size_t> patient; ///< those whose deadline is far away
  std::vector<outcome<core::result<peer_id>>> connects;
  for (int step = 0; step < 400; ++step) {
    bool from_a = random() % 2 == 0;
    auto& at = from_a ? *pair.a : *pair.b;
    auto pieces =
        std::vector<strided_piece>{{random() % 4096, 8192, random() % 4096, 8192, 1 + random() % 8192,
                                    static_cast<std::uint32_t>(1 + random() % 300)}};
    auto t = from_a ? pair.from_a(pieces) : pair.from_b(pieces);
    t.lane = static_cast<lane>(random() % lane_count);
    bool hurry = random() % 20 == 0;
    if (hurry) t.deadline = around.clock().now() + std::chrono::microseconds{1 + random() % 2000};
    auto started = ends.size();
    switch (random() % 12) {
    case 0:
      connects.emplace_back();
      at.connect((from_a ? *pair.b : *pair.a).address(), around.soon(),
                 [box = connects.back()](auto peer) mutable { box.set(peer); });
      break;
    case 1:
      if (random() % 4 == 0) at.disconnect(t.peer);
      break;
    case 2:
    case 3:
      ends.emplace_back();
      at.send(t.peer, t.lane, {1, random_bytes(random() % 9000, random)}, t.deadline, into(ends.back()));
      break;
    case 4:
      around.let_run(
          [&](std::chrono::milliseconds limit) { return ends.empty() || ends.back().wait_for(1, limit); });
      break;
    default:
      ends.emplace_back();
      if (random() % 2 == 0) {
        at.put(std::move(t), into(ends.back()));
      } else {
        at.get(std::move(t), into(ends.back()));
      }
    }
    if (!hurry && ends.size() > started) patient.push_back(started);
  }
  for (auto& end : ends) around.await(end);
  for (auto& end : connects) around.await(end);
  pair.a.reset();
  pair.b.reset();
  for (auto& end : ends) CHECK(end.count() == 1);
  for (auto& end : connects) CHECK(end.count() == 1);
  none_at_their_deadline(ends, patient);
}

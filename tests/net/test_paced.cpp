// What paced lanes promise beyond the contract, over a simulated network in virtual time.
#include "world.hpp"

#include "net/paced_fabric.hpp"
#include "net/piece_cutter.hpp"
#include "net/sim_fabric.hpp"

#include <algorithm>
#include <map>
#include <memory>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

constexpr double link_bytes_per_s = 1e9;
constexpr core::duration link_latency = 5us;
constexpr std::uint64_t region_bytes = 8 << 20;

/// Paced fabrics, or plain ones, over a slow network.
struct paced_pair final : world {
  explicit paced_pair(bool paced, core::qos_config qos = {}) : paced{paced}, qos{std::move(qos)} {}
  std::unique_ptr<fabric> open(const identity& self) override {
    auto plain = network.open(self);
    if (!paced) return plain;
    auto made = pace_lanes(std::move(plain), {&time, qos, window, quantum_bytes});
    if (!made) FAIL(made.error().text);
    return std::move(*made);
  }
  core::clock& clock() override { return time; }
  bool let_run(const std::function<bool(std::chrono::milliseconds)>& reached) override {
    for (auto end = time.now() + 60s; time.now() < end; time.advance(1us)) {
      if (reached(0ms)) return true;
    }
    return reached(0ms);
  }

  bool paced;
  core::qos_config qos;
  core::pacing_window window{128 << 10, 64 << 10};
  std::uint64_t quantum_bytes = 16 << 10;
  core::manual_clock time;
  sim_network network{{.clock = &time, .bytes_per_second = link_bytes_per_s, .latency = link_latency}};
};

/// Transfers of a lane that never end: each that is done is followed by another. The last ones end when their
/// fabric closes, so they keep the stream alive.
struct stream : std::enable_shared_from_this<stream> {
  stream(pair_of_fabrics& of, lane which, std::uint64_t seed, bool puts = true)
      : pair{of}, on{which}, random{seed}, put{puts} {}

  pair_of_fabrics& pair;
  lane on;
  std::mt19937_64 random;
  bool put;
  bool open = true;

  void next() {
    if (!open) return;
    auto bytes = 4096 * (1 + random() % 64);
    auto t = pair.from_a({{0, 0, 0, 0, bytes, 1}}, on);
    auto again = [self = shared_from_this()](core::result<void>) { self->next(); };
    if (put) {
      pair.a->put(std::move(t), again);
    } else {
      pair.a->get(std::move(t), again);
    }
  }
  void start(int in_flight) {
    for (int i = 0; i < in_flight; ++i) next();
  }
};

std::uint64_t bytes_of(fabric& of, lane on) {
  auto counted = of.counters()[static_cast<std::size_t>(on)];
  return counted.put_bytes + counted.get_bytes;
}

/// Bytes of each lane over a stretch of virtual time.
std::map<lane, double> moved_in(paced_pair& around, pair_of_fabrics& pair, core::duration stretch) {
  std::map<lane, double> out;
  for (auto on : {lane::collective, lane::kv, lane::control})
    out[on] = -static_cast<double>(bytes_of(*pair.a, on));
  around.time.advance(stretch);
  for (auto on : {lane::collective, lane::kv, lane::control})
    out[on] += static_cast<double>(bytes_of(*pair.a, on));
  return out;
}

double sum(const std::map<lane, double>& of) {
  double all = 0;
  for (auto& [on, bytes] : of) all += bytes;
  return all;
}

core::qos_config three_classes(core::arbiter_tables tables) {
  core::qos_config qos;
  qos.classes = {{"collective", 0, 0, 0}, {"kv", 1, 1, 8}, {"control", 2, 2, 16}};
  qos.tables = std::move(tables);
  return qos;
}

} // namespace

TEST_CASE("saturated lanes share a paced link by the tables within 2 %, in either direction, and fill it") {
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  auto weight = [&] { return static_cast<std::uint8_t>(40 + random() % 200); };
  bool put = GENERATE(true, false);
  for (int round = 0; round < 3; ++round) {
    auto limit = static_cast<std::uint8_t>(1 + random() % 6);
    auto qos = three_classes({{{0, weight()}, {2, weight()}}, {{1, 64}}, limit});
    if (round == 0) qos.tables = {{{0, weight()}, {1, weight()}, {2, weight()}}, {}, 240};
    paced_pair around{true, qos};
    pair_of_fabrics pair{around, region_bytes};
    std::vector<std::shared_ptr<stream>> streams;
    for (auto on : {lane::collective, lane::kv, lane::control})
      streams.push_back(std::make_shared<stream>(pair, on, random(), put));
    for (auto& each : streams) each->start(8);
    around.time.advance(20ms);
    auto moved = moved_in(around, pair, 300ms);
    auto promised = core::sure_shares(qos);
    INFO(core::to_opensm_options(qos.tables, 3));
    std::size_t number = 0;
    for (auto on : {lane::collective, lane::kv, lane::control}) {
      INFO("lane " << to_string(on));
      CHECK(moved[on] / sum(moved) == Approx(promised[number++]).margin(0.02));
    }
    CHECK(sum(moved) / (link_bytes_per_s * 0.3) == Approx(1).margin(0.02));
    for (auto& each : streams) each->open = false;
  }
}

TEST_CASE("KV fills a paced link while collectives are silent, and is not starved while they are not") {
  auto start = seed();
  INFO("seed " << start);
  paced_pair around{true};
  pair_of_fabrics pair{around, region_bytes};
  auto kv = std::make_shared<stream>(pair, lane::kv, start);
  auto collectives = std::make_shared<stream>(pair, lane::collective, start);
  kv->start(8);
  around.time.advance(5ms);
  CHECK(moved_in(around, pair, 100ms)[lane::kv] / (link_bytes_per_s * 0.1) == Approx(1).margin(0.02));

  collectives->start(8);
  around.time.advance(5ms);
  auto both = moved_in(around, pair, 2s);
  CHECK(both[lane::collective] / sum(both) > 0.98);
  // The low table is shared with collectives, which wait there too: of a packet every 241, KV has a quarter.
  CHECK(both[lane::kv] / sum(both) == Approx(1.0 / 241 / 4).epsilon(0.25));

  collectives->open = false;
  around.time.advance(5ms);
  CHECK(moved_in(around, pair, 100ms)[lane::kv] / (link_bytes_per_s * 0.1) == Approx(1).margin(0.02));
  kv->open = false;
}

TEST_CASE("a collective message waits behind no more than the window, however much KV is queued") {
  auto wait_of = [](bool paced) {
    paced_pair around{paced};
    pair_of_fabrics pair{around, region_bytes};
    outcome<ending> kv;
    for (int i = 0; i < 20; ++i) pair.a->put(pair.from_a({{0, 0, 0, 0, region_bytes, 1}}), into(kv));
    around.time.advance(1ms);
    outcome<core::instant> arrived;
    pair.b->on_message(
        [&around, arrived](peer_id, lane, message) mutable { arrived.set(around.time.now()); });
    outcome<ending> sent;
    auto begin = around.time.now();
    pair.a->send(pair.b_at_a, lane::collective, {1, std::vector<std::byte>(64)}, around.soon(), into(sent));
    auto waited = around.await(arrived)[0] - begin;
    around.await(kv, 20);
    return waited;
  };
  auto window = paced_pair{true}.window.shared_bytes + paced_pair{true}.quantum_bytes + 64;
  auto bound = link_latency + core::from_seconds(static_cast<double>(window) / link_bytes_per_s) + 1us;
  CHECK(wait_of(true) <= bound);
  CHECK(wait_of(false) > 10 * bound);
}

TEST_CASE("what waits for its turn ends at its deadline and touches no memory") {
  paced_pair around{true};
  pair_of_fabrics pair{around, region_bytes};
  outcome<ending> first, late, after;
  pair.a->put(pair.from_a({{0, 0, 0, 0, region_bytes / 2, 1}}), into(first));
  auto t = pair.from_a({{region_bytes / 2, 0, region_bytes / 2, 0, 1 << 20, 1}});
  t.deadline = around.time.now() + 100us;
  std::fill(pair.a_memory.bytes.begin(), pair.a_memory.bytes.end(), std::byte{1});
  pair.a->put(t, into(late));
  pair.a->put(pair.from_a({{0, 0, 0, 0, 4096, 1}}), into(after));
  around.time.advance(99us);
  CHECK(late.count() == 0);
  around.time.advance(2us);
  REQUIRE(late.count() == 1);
  CHECK(
      tells(*late.values()[0], core::errc::timed_out, "put of 1048576 bytes on lane kv passed its deadline"));
  CHECK_FALSE(around.await(first)[0]);
  CHECK_FALSE(around.await(after)[0]);
  around.time.advance(1s);
  auto untouched = pair.b_memory.bytes.subspan(region_bytes / 2);
  CHECK(std::all_of(untouched.begin(), untouched.end(), [](auto b) { return b == std::byte{}; }));
  auto counted = pair.a->counters()[static_cast<std::size_t>(lane::kv)];
  CHECK(counted.timed_out == 1);
  CHECK(counted.put_bytes == region_bytes / 2 + 4096);
}

TEST_CASE("a transfer of which a part fails ends once, with that failure, when no part is under way") {
  auto start = seed();
  INFO("seed " << start);
  paced_pair around{true};
  pair_of_fabrics pair{around, region_bytes};
  around.network.set_faults({.drop = 0.1, .fail = 0.1, .delay = 0.3});
  std::vector<outcome<ending>> ends(40);
  for (auto& end : ends) {
    auto t = pair.from_a({{0, 0, 0, 0, 100'000, 1}});
    t.deadline = around.time.now() + 20ms;
    pair.a->put(std::move(t), into(end));
  }
  unsigned failed = 0;
  for (auto& end : ends) failed += around.await(end)[0].has_value();
  around.time.advance(1s);
  for (auto& end : ends) CHECK(end.count() == 1);
  CHECK(failed > 0);
}

TEST_CASE("counters tell how long lanes have waited for their turn") {
  paced_pair around{true};
  pair_of_fabrics pair{around, region_bytes};
  outcome<ending> ends;
  for (int i = 0; i < 3; ++i) pair.a->put(pair.from_a({{0, 0, 0, 0, 1 << 20, 1}}), into(ends));
  around.await(ends, 3);
  auto waited = [&](lane on) { return pair.a->counters()[static_cast<std::size_t>(on)].waited; };
  // The second waits for most of the first, the third for most of both.
  CHECK(waited(lane::kv) > core::from_seconds(2.5 * (1 << 20) / link_bytes_per_s));
  CHECK(waited(lane::kv) < core::from_seconds(3.5 * (1 << 20) / link_bytes_per_s));
  CHECK(waited(lane::collective) == core::duration{0});
}

TEST_CASE("lanes without a traffic class, and tables that starve one, are refused") {
  core::manual_clock time;
  sim_network network{{.clock = &time}};
  auto refusal = [&](core::qos_config qos) {
    pacing_options options;
    options.clock = &time;
    options.qos = std::move(qos);
    auto made = pace_lanes(network.open(engine(1)), std::move(options));
    return made ? std::string{} : made.error().text;
  };
  core::qos_config nameless;
  nameless.classes[2].name = "cache";
  CHECK(refusal(nameless).find("lane kv has no traffic class") != std::string::npos);
  core::qos_config starving;
  starving.tables.low.clear();
  CHECK(refusal(starving).find("Lane 2 has a weight in neither") != std::string::npos);
  CHECK(refusal({}).empty());
}

TEST_CASE("a cutter gives every byte of a transfer once, in order, in parts of at most the limit") {
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  using place = std::pair<std::uint64_t, std::uint64_t>; // a byte here, and there
  auto places = [](const std::vector<strided_piece>& pieces, std::vector<place>& into) {
    for (auto& piece : pieces)
      for (std::uint64_t row = 0; row < piece.count; ++row)
        for (std::uint64_t i = 0; i < piece.bytes; ++i)
          into.emplace_back(piece.local_offset + row * piece.local_stride + i,
                            piece.remote_offset + row * piece.remote_stride + i);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<strided_piece> pieces;
    for (auto n = random() % 5; n > 0; --n)
      pieces.push_back({random() % 1000, random() % 100, random() % 1000, random() % 100, random() % 60,
                        static_cast<std::uint32_t>(random() % 9)});
    std::vector<place> expected, got;
    places(pieces, expected);
    piece_cutter cutter{pieces};
    auto left = total_bytes(pieces);
    while (cutter.left_bytes() > 0) {
      REQUIRE(cutter.left_bytes() == left);
      auto most = 1 + random() % 80;
      auto part = cutter.next(most);
      auto bytes = total_bytes(part);
      REQUIRE(bytes == std::min(most, left));
      left -= bytes;
      places(part, got);
    }
    REQUIRE(got == expected);
  }
}

// What every fabric promises about moving bytes; run over each of them.
#include "world.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

bool same(std::span<const std::byte> x, std::span<const std::byte> y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size()) == 0;
}

std::vector<std::byte> got_onto(std::vector<std::byte> sink, std::span<const std::byte> source,
                                const std::vector<strided_piece>& pieces) {
  for (auto& piece : pieces)
    for (std::uint64_t i = 0; i < piece.count; ++i)
      std::memcpy(sink.data() + piece.local_offset + i * piece.local_stride,
                  source.data() + piece.remote_offset + i * piece.remote_stride, piece.bytes);
  return sink;
}

std::vector<std::byte> put_onto(std::vector<std::byte> sink, std::span<const std::byte> source,
                                std::vector<strided_piece> pieces) {
  for (auto& piece : pieces) {
    std::swap(piece.local_offset, piece.remote_offset);
    std::swap(piece.local_stride, piece.remote_stride);
  }
  return got_onto(std::move(sink), source, pieces);
}

} // namespace

TEST_CASE("a strided put and a strided get move exactly their rows") {
  FOR_EVERY_WORLD(around);
  constexpr std::uint64_t size = 4 << 20;
  pair_of_fabrics pair{around, size};
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  auto source = random_bytes(size, random);
  auto sink = random_bytes(size, random);
  std::vector<strided_piece> pieces{{4096, 8192, 100, 12288, 4000, 17},
                                    {1 << 20, 65536, 2 << 20, 65536, 65536, 9}};
  for (auto on : {lane::kv, lane::collective, lane::control}) {
    INFO("lane " << to_string(on));
    std::copy(source.begin(), source.end(), pair.a_memory.bytes.begin());
    std::copy(sink.begin(), sink.end(), pair.b_memory.bytes.begin());
    REQUIRE_FALSE(put(around, *pair.a, pair.from_a(pieces, on)));
    CHECK(same(pair.b_memory.bytes, put_onto(sink, source, pieces)));
    CHECK(same(pair.a_memory.bytes, source));

    std::copy(sink.begin(), sink.end(), pair.a_memory.bytes.begin());
    std::copy(source.begin(), source.end(), pair.b_memory.bytes.begin());
    REQUIRE_FALSE(get(around, *pair.a, pair.from_a(pieces, on)));
    CHECK(same(pair.a_memory.bytes, got_onto(sink, source, pieces)));
    CHECK(same(pair.b_memory.bytes, source));

    auto counters = pair.a->counters()[static_cast<std::size_t>(on)];
    CHECK(counters.put_bytes == total_bytes(pieces));
    CHECK(counters.get_bytes == total_bytes(pieces));
    CHECK(counters.failed + counters.timed_out == 0);
  }
}

TEST_CASE("a transfer of many blocks moves exactly its rows, however long it is") {
  FOR_EVERY_WORLD(around);
  const auto rows = static_cast<std::uint32_t>(bulk(512));
  const std::uint64_t size = std::uint64_t{rows} * 90'000;
  pair_of_fabrics pair{around, size};
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  auto source = random_bytes(size, random), sink = random_bytes(size, random);
  // Row by row, and the rest in one: 22 MB where nothing is emulated.
  std::vector<strided_piece> pieces{{0, 60'000, 30'000, 80'000, 40'000, rows},
                                    {rows * 60'000ULL, 0, rows * 80'000ULL, 0, rows * 3'000ULL, 1}};
  std::copy(source.begin(), source.end(), pair.a_memory.bytes.begin());
  std::copy(sink.begin(), sink.end(), pair.b_memory.bytes.begin());
  REQUIRE_FALSE(put(around, *pair.a, pair.from_a(pieces)));
  CHECK(same(pair.b_memory.bytes, put_onto(sink, source, pieces)));
  std::copy(source.begin(), source.end(), pair.b_memory.bytes.begin());
  std::copy(sink.begin(), sink.end(), pair.a_memory.bytes.begin());
  REQUIRE_FALSE(get(around, *pair.a, pair.from_a(pieces)));
  CHECK(same(pair.a_memory.bytes, got_onto(sink, source, pieces)));
}

TEST_CASE("memory is page-aligned, zeroed, and attached memory transfers like allocated memory") {
  FOR_EVERY_WORLD(around);
  pair_of_fabrics pair{around, 10'000};
  CHECK(reinterpret_cast<std::uintptr_t>(pair.a_memory.bytes.data()) % 4096 == 0);
  CHECK(std::all_of(pair.a_memory.bytes.begin(), pair.a_memory.bytes.end(),
                    [](auto b) { return b == std::byte{}; }));
  CHECK_FALSE(pair.a->allocate(0));
  CHECK_FALSE(pair.a->attach({}));

  std::mt19937_64 random{1};
  auto here = random_bytes(300'000, random), there = std::vector<std::byte>(300'000);
  auto local = pair.a->attach(here), remote = pair.b->attach(there);
  REQUIRE((local && remote));
  auto exported = pair.b->export_region(remote->id);
  REQUIRE(exported);
  auto imported = pair.a->import_region(pair.b_at_a, *exported);
  REQUIRE(imported);
  transfer t{pair.b_at_a, lane::kv, local->id, *imported, {{0, 0, 0, 0, 300'000, 1}}, around.soon()};
  REQUIRE_FALSE(put(around, *pair.a, t));
  CHECK(same(here, there));
  std::fill(here.begin(), here.end(), std::byte{});
  REQUIRE_FALSE(get(around, *pair.a, t));
  CHECK(same(here, there));
  pair.a->release(local->id);
  auto late = put(around, *pair.a, t);
  REQUIRE(late);
  CHECK(tells(*late, core::errc::invalid_argument, "no memory region"));
}

TEST_CASE("many concurrent transfers in both directions move every byte") {
  FOR_EVERY_WORLD(around);
  constexpr std::uint32_t slots = 200, slot_bytes = 40'000;
  pair_of_fabrics pair{around, std::uint64_t{4} * slots * slot_bytes};
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  auto a_bytes = random_bytes(pair.a_memory.bytes.size(), random);
  auto b_bytes = random_bytes(pair.b_memory.bytes.size(), random);
  std::copy(a_bytes.begin(), a_bytes.end(), pair.a_memory.bytes.begin());
  std::copy(b_bytes.begin(), b_bytes.end(), pair.b_memory.bytes.begin());
  // Quarters: a puts 0 → 0, b puts 1 → 1, a gets 2 ← 2, b gets 3 ← 3.
  outcome<ending> ends;
  auto quarter = std::uint64_t{slots} * slot_bytes;
  for (std::uint32_t i = 0; i < slots; ++i) {
    auto offset = std::uint64_t{i} * slot_bytes;
    auto pieces = [&](unsigned which) {
      auto base = which * quarter + offset;
      auto cut = 1 + random() % (slot_bytes - 1);
      return std::vector<strided_piece>{{base, 0, base, 0, cut, 1},
                                        {base + cut, 0, base + cut, 0, slot_bytes - cut, 1}};
    };
    auto on = i % 3 == 0 ? lane::collective : lane::kv;
    pair.a->put(pair.from_a(pieces(0), on), into(ends));
    pair.b->put(pair.from_b(pieces(1), on), into(ends));
    pair.a->get(pair.from_a(pieces(2), on), into(ends));
    pair.b->get(pair.from_b(pieces(3), on), into(ends));
  }
  for (auto& end : around.await(ends, 4 * slots)) {
    if (end) FAIL(end->text);
  }
  auto part = [&](std::span<const std::byte> of, unsigned which) {
    return of.subspan(which * quarter, quarter);
  };
  CHECK(same(part(pair.b_memory.bytes, 0), part(a_bytes, 0)));
  CHECK(same(part(pair.a_memory.bytes, 1), part(b_bytes, 1)));
  CHECK(same(part(pair.a_memory.bytes, 2), part(b_bytes, 2)));
  CHECK(same(part(pair.b_memory.bytes, 3), part(a_bytes, 3)));
}

TEST_CASE("a transfer that leaves a region, or names what is not there, is refused and moves nothing") {
  FOR_EVERY_WORLD(around);
  pair_of_fabrics pair{around, 65536};
  constexpr auto huge = ~std::uint64_t{0};
  std::vector<strided_piece> bad{
      {65536, 0, 0, 0, 1, 1},       {0, 0, 65536, 0, 1, 1},      {0, 0, 0, 0, 65537, 1},
      {0, 4096, 0, 4096, 4096, 17}, {0, huge, 0, 4096, 4096, 2}, {0, 4096, 0, huge, 4096, 2},
      {huge, 0, 0, 0, 2, 1},        {0, 0, huge - 1, 0, 4, 1},   {0, 0, 0, 0, huge, 1},
      {0, huge / 2, 0, 0, 16, 3},
  };
  std::fill(pair.a_memory.bytes.begin(), pair.a_memory.bytes.end(), std::byte{1});
  for (auto& piece : bad) {
    auto end = put(around, *pair.a, pair.from_a({{0, 0, 0, 0, 16, 1}, piece}));
    REQUIRE(end);
    CHECK(tells(*end, core::errc::invalid_argument, "piece 1 ("));
    end = get(around, *pair.a, pair.from_a({piece}));
    REQUIRE(end);
    CHECK(tells(*end, core::errc::invalid_argument, "region of 65536 bytes"));
  }
  CHECK(std::all_of(pair.b_memory.bytes.begin(), pair.b_memory.bytes.end(),
                    [](auto b) { return b == std::byte{}; }));

  auto refused = [&](auto change, const char* part) {
    auto t = pair.from_a({{0, 0, 0, 0, 16, 1}});
    change(t);
    auto end = put(around, *pair.a, t);
    REQUIRE(end);
    CHECK(tells(*end, core::errc::invalid_argument, part));
  };
  refused([](transfer& t) { t.peer = peer_id{99}; }, "no peer 99");
  refused([](transfer& t) { t.local = core::region_id{99}; }, "no memory region 99");
  refused([](transfer& t) { t.remote = remote_region_id{99}; }, "no imported region 99");
  refused([](transfer& t) { t.deadline = {}; }, "deadline");
  CHECK_FALSE(pair.a->export_region(core::region_id{99}));
  auto own = pair.a->export_region(pair.a_memory.id);
  REQUIRE(own);
  CHECK_FALSE(pair.a->import_region(pair.b_at_a, *own)); // not the peer's
  CHECK_FALSE(put(around, *pair.a, pair.from_a({})));    // nothing to do is done
  CHECK_FALSE(put(around, *pair.a, pair.from_a({{0, 0, 0, 0, 0, 5}, {0, 9, 0, 9, 16, 0}})));
}

TEST_CASE(
    "quiesce calls back after the last transfer, refuses new ones meanwhile and accepts them afterwards") {
  FOR_EVERY_WORLD(around);
  constexpr unsigned count = 40;
  pair_of_fabrics pair{around, 16 << 20};
  outcome<ending> ends, refused;
  outcome<std::size_t> quiet;
  for (unsigned i = 0; i < count; ++i) pair.a->put(pair.from_a({{0, 0, 0, 0, 1 << 20, 1}}), into(ends));
  pair.a->quiesce([=]() mutable { quiet.set(ends.count()); });
  pair.a->put(pair.from_a({{0, 0, 0, 0, 16, 1}}), into(refused));
  auto told = around.await(refused);
  auto done_before = around.await(quiet);
  CHECK(done_before == std::vector<std::size_t>{count});
  CHECK(ends.count() == count);
  // The refusal is certain only when the quiesce had not ended before the call.
  if (told[0]) CHECK(tells(*told[0], core::errc::closed, "quiescing"));
  CHECK_FALSE(put(around, *pair.a, pair.from_a({{0, 0, 0, 0, 16, 1}})));
  outcome<std::size_t> at_once;
  pair.a->quiesce([=]() mutable { at_once.set(0); });
  around.await(at_once);
  CHECK(quiet.count() == 1);
  // Whoever is called back may begin at once.
  outcome<ending> next;
  pair.a->quiesce([&] { pair.a->put(pair.from_a({{0, 0, 0, 0, 16, 1}}), into(next)); });
  CHECK_FALSE(around.await(next)[0]);
}

TEST_CASE("a fabric that closes ends every transfer once, before its destructor returns") {
  FOR_EVERY_WORLD(around);
  pair_of_fabrics pair{around, 32 << 20};
  outcome<ending> ends;
  constexpr unsigned count = 60;
  for (unsigned i = 0; i < count / 2; ++i) {
    pair.a->put(pair.from_a({{0, 0, 0, 0, 8 << 20, 1}}), into(ends));
    pair.a->get(pair.from_a({{16 << 20, 0, 16 << 20, 0, 8 << 20, 1}}), into(ends));
  }
  pair.a.reset();
  REQUIRE(ends.count() == count);
  for (auto& end : ends.values()) {
    if (end) CHECK(tells(*end, core::errc::closed, "closing"));
  }
}

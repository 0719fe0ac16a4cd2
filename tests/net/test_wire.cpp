// Bytes from a peer are never trusted: every damaged structure is an error, none is a crash.
#include "world.hpp"

#include "net/piece_cursor.hpp"
#include "net/wire.hpp"

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

wire::address some_address() {
  wire::address out;
  out.sender.who = engine(3);
  for (std::size_t i = 0; i < lane_count; ++i) out.lanes[i] = std::vector<std::byte>(40 + i, std::byte{7});
  return out;
}

template <class Decode>
void survive(std::vector<std::byte> good, Decode decode, std::mt19937_64& random) {
  REQUIRE(decode(good));
  for (int i = 0; i < 3000; ++i) {
    auto bad = good;
    for (auto flips = 1 + random() % 4; flips > 0; --flips) {
      bad[random() % bad.size()] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    }
    if (random() % 5 == 0) bad.resize(random() % (bad.size() + 1));
    auto read = decode(bad);
    if (!read) CHECK(read.error().code == core::errc::invalid_argument);
  }
  for (std::size_t size : {0, 1, 7, 8, 64, 4096, 100'000}) {
    auto noise = random_bytes(size, random);
    (void)decode(noise);
  }
}

} // namespace

TEST_CASE("every structure survives the wire") {
  auto address = wire::decode_address(wire::encode(some_address()));
  REQUIRE(address);
  CHECK(address->sender.who.engine == core::engine_id{3});
  CHECK(address->sender.who.model == engine(3).model);
  CHECK(address->sender.who.layout == engine(3).layout);
  CHECK(address->lanes == some_address().lanes);
  auto request = wire::decode_copy_request(
      wire::encode(wire::copy_request{1, 2, {{3, 4, 5, {{6, 7}, {8, 9}}}, {10, 11, 12, {}}}}));
  REQUIRE(request);
  REQUIRE(request->chunks.size() == 2);
  REQUIRE(request->chunks[0].rows.size() == 2);
  CHECK(request->chunks[0].rows[1].bytes == 9);
  CHECK(request->chunks[1].number == 10);
  auto done = wire::decode_copy_reply(wire::encode(wire::copy_reply{1, 2, {3, 4}, ""}));
  REQUIRE(done);
  CHECK(done->chunks == std::vector<std::uint64_t>{3, 4});
  auto reply =
      wire::decode_hello_reply(wire::encode(wire::hello_reply{some_address().sender, 1, 2, 3, "no"}));
  REQUIRE(reply);
  CHECK(reply->refusal == "no");
}

TEST_CASE("damaged structures are refused and never crash") {
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  survive(wire::encode(some_address()), wire::decode_address, random);
  survive(
      wire::encode(wire::hello{some_address(), 1, 2, 3, random_bytes(50, random), random_bytes(32, random)}),
      wire::decode_hello, random);
  survive(wire::encode(wire::hello_reply{some_address().sender, 1, 2, 3, "no"}), wire::decode_hello_reply,
          random);
  survive(wire::encode(wire::bye{1, 2, "gone"}), wire::decode_bye, random);
  survive(wire::encode(wire::message_header{1, 2, 3, 4}), wire::decode_message_header, random);
  survive(wire::encode(wire::region{1, 4096, 4096, some_address().lanes}), wire::decode_region, random);
  survive(wire::encode(wire::copy_request{1, 2, {{3, 4, 5, {{6, 7}}}}}), wire::decode_copy_request, random);
  survive(wire::encode(wire::copy_reply{1, 2, {3, 4}, "no"}), wire::decode_copy_reply, random);
}

TEST_CASE("a flipped bit in a transport address or a memory key is found by its digest") {
  auto good = wire::encode(some_address());
  auto lane_byte = std::find(good.begin(), good.end(), std::byte{7});
  // The fingerprint holds a 7 as well; the lanes' bytes come in runs.
  while (std::count(lane_byte, std::min(lane_byte + 8, good.end()), std::byte{7}) < 8) ++lane_byte;
  *lane_byte ^= std::byte{1};
  auto read = wire::decode_address(good);
  REQUIRE_FALSE(read);
  CHECK(read.error().text.find("digest") != std::string::npos);
}

TEST_CASE("adjacent rows become one operation, and long ones are cut") {
  piece_cursor joined{{{0, 64, 128, 64, 64, 100}}, 1 << 20};
  auto all = joined.next();
  CHECK(all.bytes == 6400);
  CHECK(joined.at_end());
  // The second follows the first on both sides, the third on one side only.
  piece_cursor pieces{{{0, 0, 512, 0, 64, 1}, {64, 0, 576, 0, 64, 1}, {128, 0, 704, 0, 64, 1}}, 1 << 20};
  CHECK(pieces.next().bytes == 128);
  auto apart = pieces.next();
  CHECK(apart.local_offset == 128);
  CHECK(apart.remote_offset == 704);
  CHECK(apart.bytes == 64);
  CHECK(pieces.at_end());
  piece_cursor cut{{{0, 0, 0, 0, 0, 3}, {8, 0, 16, 0, 2500, 1}}, 1000};
  std::vector<std::uint64_t> sizes;
  while (!cut.at_end()) sizes.push_back(cut.next().bytes);
  CHECK(sizes == std::vector<std::uint64_t>{1000, 1000, 500});
}

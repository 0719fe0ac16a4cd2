#include "storage/block_header.hpp"

#include "fixture.hpp"
#include "header_page.hpp"

namespace dualpath::storage::testing {
namespace {

block_header example() {
  auto name = chain(4, 3).back();
  return {.name = name,
          .model = model(9),
          .layout = {.layers = 64, .block_tokens = 64, .token_bytes = 4096},
          .payload_bytes = 64ull * 64 * 4096,
          .payload_checksum = {.low = 0x1234'5678'9abc'def0, .high = ~0ull}};
}

TEST_CASE("a header decodes to what was encoded") {
  page bytes;
  bytes.fill(std::byte{0xff});
  encode_header(example(), bytes);
  auto back = decode_header(bytes);
  REQUIRE(back);
  CHECK(*back == example());
}

TEST_CASE("every flipped bit of a header page is found") {
  page bytes;
  encode_header(example(), bytes);
  for (std::size_t bit = 0; bit < header_bytes * 8; bit += 7) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    auto back = decode_header(bytes);
    REQUIRE_FALSE(back);
    REQUIRE(back.error().code == core::errc::corrupt);
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

TEST_CASE("a sound header of another version is told apart from damage") {
  page bytes = page_of_version(99);
  auto back = decode_header(bytes);
  REQUIRE_FALSE(back);
  CHECK(back.error().code == core::errc::unsupported);
  CHECK_THAT(back.error().text, Catch::Contains("99"));
}

TEST_CASE("random header pages are errors, also behind a right checksum") {
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed);
  std::mt19937_64 random{random_seed};
  page bytes;
  for (int round = 0; round < 3000; ++round) {
    for (std::size_t i = 0; i < header_bytes; i += 8) {
      auto word = random();
      std::memcpy(bytes.data() + i, &word, 8);
    }
    REQUIRE_FALSE(decode_header(bytes));
    // A plausible segment table lets the message reader go on to random pointers.
    std::uint32_t table[2] = {0, static_cast<std::uint32_t>(random() % 509)};
    if (round % 2) std::memcpy(bytes.data(), table, sizeof table);
    reseal(bytes);
    REQUIRE_FALSE(decode_header(bytes));
  }
}

TEST_CASE("damaged messages behind a right checksum never crash") {
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed);
  std::mt19937_64 random{random_seed};
  page good;
  encode_header(example(), good);
  int refused = 0;
  constexpr int rounds = 20'000;
  for (int round = 0; round < rounds; ++round) {
    auto bytes = good;
    for (auto flips = 1 + random() % 4; flips > 0; --flips)
      bytes[random() % 256] ^= std::byte{1} << random() % 8; // where the message lies
    reseal(bytes);
    if (!decode_header(bytes)) ++refused;
  }
  CHECK(refused > 0);
}

} // namespace
} // namespace dualpath::storage::testing

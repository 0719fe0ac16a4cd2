#include "storage/checksum.hpp"

#include "fixture.hpp"

namespace dualpath::storage::testing {
namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 131 + (i >> 8));
  return bytes;
}

TEST_CASE("a checksum is the same in one go and in pieces of any size") {
  for (std::size_t count : {0U, 1U, 240U, 4096U, 65'536U, 65'537U, 100'000U, 1'000'001U}) {
    auto bytes = bytes_of(count);
    auto whole = checksum(bytes);
    for (std::size_t piece : {1000U, 4096U, 70'000U}) {
      INFO(count << " bytes in pieces of " << piece);
      running_checksum sum;
      for (std::size_t at = 0; at < count; at += piece)
        sum.add(std::span{bytes}.subspan(at, std::min(piece, count - at)));
      CHECK(sum.value() == whole);
    }
  }
}

TEST_CASE("stored blocks keep their checksum: it is XXH3-128") {
  CHECK(checksum(bytes_of(100'000)) == checksum128{0x45169176f633139f, 0x222a45d78d28b136});
}

TEST_CASE("a flipped bit anywhere changes the checksum") {
  auto bytes = bytes_of(100'000);
  auto before = checksum(bytes);
  for (std::size_t at : {0U, 4095U, 65'536U, 82'345U, 99'999U}) {
    bytes[at] ^= std::byte{4};
    CHECK_FALSE(checksum(bytes) == before);
    bytes[at] ^= std::byte{4};
  }
}

} // namespace
} // namespace dualpath::storage::testing

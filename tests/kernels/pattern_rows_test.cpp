#include "kernels/pattern/pattern_rows.hpp"

#include "pattern_fixture.hpp"

#include <set>

using namespace dualpath;
using namespace dualpath::kernels;

TEST_CASE("a pattern row is filled as its bytes say, whatever its length") {
  auto length = GENERATE(1, 7, 8, 9, 45, 64, 656, 4096);
  auto seed = row_seed(layer_salt(11, 3), 12345);
  std::vector<std::byte> row(static_cast<std::size_t>(length) + 1, std::byte{0xee});
  auto filled = std::span{row}.first(row.size() - 1);
  fill_row(seed, filled);
  for (std::size_t i = 0; i < filled.size(); ++i) REQUIRE(filled[i] == row_byte(seed, i));
  CHECK(row.back() == std::byte{0xee});
  CHECK(row_matches(seed, filled));
  CHECK_FALSE(first_difference(seed, filled));
}

TEST_CASE("every flipped bit of a pattern row is found at its byte") {
  auto length = GENERATE(13, 656);
  auto seed = row_seed(layer_salt(1, 0), 99);
  std::vector<std::byte> row(static_cast<std::size_t>(length));
  fill_row(seed, row);
  for (std::size_t i = 0; i < row.size(); ++i) {
    auto bit = std::byte(1u << (i % 8));
    row[i] ^= bit;
    REQUIRE(first_difference(seed, row) == i);
    row[i] ^= bit;
  }
}

TEST_CASE("rows of other layers, positions and models differ") {
  std::set<std::vector<std::byte>> rows;
  for (std::uint64_t model = 0; model < 4; ++model)
    for (std::uint32_t layer = 0; layer < 16; ++layer)
      for (std::uint64_t prefix = 0; prefix < 64; ++prefix) {
        std::vector<std::byte> row(16);
        fill_row(row_seed(layer_salt(model, layer), prefix), row);
        rows.insert(row);
      }
  CHECK(rows.size() == 4 * 16 * 64);
}

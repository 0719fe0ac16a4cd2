#include "core/layout/layer_pieces.hpp"

#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <numeric>

using namespace dualpath::core;

namespace {

struct geometry {
  block_layout layout;
  std::uint64_t slot_bytes = 0, staging_offset = 0;
  std::vector<std::uint32_t> slots;
  std::uint32_t layer = 0;
};

geometry draw(dualpath::tests::random_source& random, bool consecutive) {
  geometry g;
  g.layout.layers = static_cast<std::uint32_t>(random.between(1, 6));
  g.layout.block_tokens = static_cast<std::uint32_t>(random.between(1, 9));
  g.layout.token_bytes = static_cast<std::uint32_t>(random.between(1, 5));
  // A slot is a Full Block and some padding.
  g.slot_bytes = g.layout.full_block_bytes() + random.between(0, 16);
  g.staging_offset = random.between(0, 100);
  g.layer = static_cast<std::uint32_t>(random.between(0, g.layout.layers - 1));
  auto count = random.between(1, 12);
  g.slots.resize(count * 2);
  std::iota(g.slots.begin(), g.slots.end(), static_cast<std::uint32_t>(random.between(0, 5)));
  if (!consecutive)
    for (std::size_t i = g.slots.size() - 1; i > 0; --i) std::swap(g.slots[i], g.slots[random.between(0, i)]);
  g.slots.resize(count);
  return g;
}

/// Local byte → remote byte, one entry a byte moved; fails where a byte moves twice.
std::map<std::uint64_t, std::uint64_t> bytes_of(const std::vector<strided_piece>& pieces) {
  std::map<std::uint64_t, std::uint64_t> moves;
  for (auto& piece : pieces)
    for (std::uint32_t i = 0; i < piece.count; ++i)
      for (std::uint64_t b = 0; b < piece.bytes; ++b) {
        auto local = piece.local_offset + i * piece.local_stride + b;
        REQUIRE(moves.emplace(local, piece.remote_offset + i * piece.remote_stride + b).second);
      }
  return moves;
}

/// The same, from the definition of staging area and Full Block, row by row.
std::map<std::uint64_t, std::uint64_t> expected_bytes(const geometry& g, std::uint64_t from,
                                                      std::uint64_t to) {
  std::map<std::uint64_t, std::uint64_t> moves;
  auto tokens = g.layout.block_tokens;
  for (auto token = from; token < to; ++token)
    for (std::uint64_t b = 0; b < g.layout.token_bytes; ++b) {
      auto in_block = token % tokens * g.layout.token_bytes + b;
      auto local = g.staging_offset + token * g.layout.token_bytes + b;
      auto full_block = g.slots[token / tokens] * g.slot_bytes;
      moves[local] = full_block + std::uint64_t{g.layer} * tokens * g.layout.token_bytes + in_block;
    }
  return moves;
}

} // namespace

TEST_CASE("pieces move every byte of the rows asked for exactly once, to its place in its Full Block",
          "[layer_pieces]") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 400; ++round) {
    auto g = draw(random, random.chance(0.5));
    auto capacity = g.slots.size() * g.layout.block_tokens;
    auto from = random.between(0, capacity);
    auto to = random.between(from, capacity);
    auto pieces = layer_pieces(g.layout, g.slot_bytes, g.slots, g.layer, g.staging_offset, from, to);
    REQUIRE(bytes_of(pieces) == expected_bytes(g, from, to));
    CHECK(total_bytes(pieces) == (to - from) * g.layout.token_bytes);
  }
}

TEST_CASE("the pieces of consecutive slots are at most three, however long the context", "[layer_pieces]") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 200; ++round) {
    auto g = draw(random, true);
    g.slots.resize(random.between(1, 5000));
    std::iota(g.slots.begin(), g.slots.end(), 3u);
    auto capacity = g.slots.size() * g.layout.block_tokens;
    auto from = random.between(0, capacity);
    auto to = random.between(from, capacity);
    CHECK(layer_pieces(g.layout, g.slot_bytes, g.slots, g.layer, 0, from, to).size() <= 3);
    // Whole blocks are one piece.
    CHECK(layer_pieces(g.layout, g.slot_bytes, g.slots, g.layer, 0, 0, capacity).size() == 1);
  }
}

TEST_CASE("the pieces of scattered slots are at most one a run of slots and two more", "[layer_pieces]") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 200; ++round) {
    auto g = draw(random, false);
    std::size_t runs = 1;
    for (std::size_t i = 1; i < g.slots.size(); ++i)
      if (g.slots[i] != g.slots[i - 1] + 1) ++runs;
    auto capacity = g.slots.size() * g.layout.block_tokens;
    auto from = random.between(0, capacity);
    auto to = random.between(from, capacity);
    CHECK(layer_pieces(g.layout, g.slot_bytes, g.slots, g.layer, 0, from, to).size() <= runs + 2);
  }
}

TEST_CASE("no rows are no pieces", "[layer_pieces]") {
  block_layout layout{2, 4, 8};
  std::vector<std::uint32_t> slots{0, 1};
  CHECK(layer_pieces(layout, layout.full_block_bytes(), slots, 1, 0, 5, 5).empty());
}

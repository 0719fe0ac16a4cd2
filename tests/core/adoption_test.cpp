#include "core/policy/adoption.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;

namespace {

constexpr std::uint32_t block_tokens = 16;

adopted_reads adopt(policy chosen, const path_inputs& inputs, std::uint32_t hit_blocks,
                    const kept_hits& kept) {
  return adopt_hits(chosen, inputs, hit_blocks, block_tokens, kept);
}

kept_hits in_landing(std::uint32_t count) { return {engine_role::decode, {0, count}}; }
kept_hits in_pe_buffer(std::uint32_t first, std::uint32_t count) {
  return {engine_role::prefill, {first, count}};
}

} // namespace

TEST_CASE("where nothing was kept, hits are read as those of any request") {
  for (auto side : {engine_role::prefill, engine_role::decode}) {
    auto chosen = adopt(policy::split, {}, 8, {side, {}});
    CHECK(chosen.hits == read_split{4, 4});
    CHECK(chosen.reads == chosen.hits);
    CHECK(chosen.kept_blocks() == 0);
  }
}

TEST_CASE("a hit that one side kept as a whole is not read again, under any policy") {
  for (auto p : {policy::dualpath, policy::split, policy::basic, policy::round_robin, policy::oracle})
    for (std::uint64_t turn : {0, 1})
      for (std::uint32_t stored : {8u, 3u, 0u}) {
        path_inputs inputs{{1000}, {0}, turn};
        auto landed = adopt(p, inputs, stored, in_landing(8));
        CHECK(landed.hits == read_split{8, 0});
        CHECK(landed.reads == read_split{});
        auto buffered = adopt(p, inputs, stored, in_pe_buffer(0, 8));
        CHECK(buffered.hits == read_split{0, 8});
        CHECK(buffered.reads == read_split{});
      }
}

TEST_CASE("of a split hit only the part that was lost is read again") {
  auto landed = adopt(policy::basic, {}, 8, in_landing(3));
  CHECK(landed.hits == read_split{3, 5});
  CHECK(landed.reads == read_split{0, 5});
  auto buffered = adopt(policy::split, {}, 8, in_pe_buffer(3, 5));
  CHECK(buffered.hits == read_split{1, 7});
  CHECK(buffered.reads == read_split{1, 2});
  CHECK(buffered.kept_blocks() == 5);
}

TEST_CASE("the part of a side that did not answer is read by the side that kept the other") {
  path_inputs prefill_failed{{}, {}, 0, false, {}, {.prefill = true}};
  auto landed = adopt(policy::split, prefill_failed, 8, in_landing(3));
  CHECK(landed.hits == read_split{8, 0});
  CHECK(landed.reads == read_split{5, 0});
  path_inputs decode_failed{{}, {}, 0, false, {}, {.decode = true}};
  auto buffered = adopt(policy::split, decode_failed, 8, in_pe_buffer(3, 5));
  CHECK(buffered.hits == read_split{0, 8});
  CHECK(buffered.reads == read_split{0, 3});
}

TEST_CASE("what was kept is used even where neither side answers any more, if nothing is missing before it") {
  path_inputs failed{{}, {}, 0, false, {}, {.prefill = true, .decode = true}};
  CHECK(adopt(policy::split, failed, 8, in_landing(3)).hits == read_split{3, 0});
  CHECK(adopt(policy::split, failed, 8, in_pe_buffer(0, 3)).hits == read_split{0, 3});
  CHECK(adopt(policy::split, failed, 8, in_pe_buffer(3, 5)).hits == read_split{});
}

TEST_CASE("blocks of a PE buffer whose beginning is stored no longer are of no use") {
  auto chosen = adopt(policy::basic, {}, 2, in_pe_buffer(3, 5));
  CHECK(chosen.hits == read_split{0, 2});
  CHECK(chosen.reads == chosen.hits);
}

TEST_CASE("whatever was kept, every hit block is in one place, and read only where it is missing") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 5000; ++round) {
    auto kept_first = static_cast<std::uint32_t>(random.between(0, 20));
    auto kept_count = static_cast<std::uint32_t>(random.between(1, 20));
    auto stored = static_cast<std::uint32_t>(random.between(0, 60));
    auto kept = random.chance(0.5) ? in_landing(kept_count) : in_pe_buffer(kept_first, kept_count);
    path_inputs inputs{{random.between(0, 300)}, {random.between(0, 300)}, random.between(0, 1)};
    inputs.failed.prefill = random.chance(0.2);
    inputs.failed.decode = random.chance(0.2);
    auto p = random.chance(0.5) ? policy::split : policy::dualpath;
    auto [hits, reads] = adopt(p, inputs, stored, kept);
    CAPTURE(stored, kept_first, kept_count);
    REQUIRE(hits.blocks() <= std::max(stored, kept.blocks.end()));
    REQUIRE(reads.decode_blocks <= hits.decode_blocks);
    REQUIRE(reads.prefill_blocks <= hits.prefill_blocks);
    if (inputs.failed.prefill) REQUIRE(reads.prefill_blocks == 0);
    if (inputs.failed.decode) REQUIRE(reads.decode_blocks == 0);
    auto kept_blocks = hits.blocks() - reads.blocks();
    REQUIRE((kept_blocks == 0 || kept_blocks == kept_count));
    if (kept_blocks == 0) continue;
    auto place = kept.side == engine_role::decode ? hits.decode_range() : hits.prefill_range();
    REQUIRE(place.contains(kept.blocks));
    // What is read is stored, or lies before what is kept.
    if (hits.blocks() > kept.blocks.end()) REQUIRE(hits.blocks() == stored);
  }
}

#include "storage/bench.hpp"

#include "fixture.hpp"

namespace dualpath::storage::testing {
namespace {

TEST_CASE("the bench measures every figure, time after time, and leaves no block behind") {
  temp_folder folder{"/dev/shm"};
  auto opened = store_bench::open(
      {.directory = folder.path(), .block_bytes = 100'000, .blocks = 20, .in_flight = 4, .threads = 2});
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  auto& bench = **opened;
  for (int round = 0; round < 2; ++round) {
    for (auto& phase : {bench.write(), bench.read()}) {
      INFO((phase ? "" : phase.error().text));
      REQUIRE(phase);
      CHECK(phase->gb_per_s > 0);
      CHECK(phase->cpu_s_per_gb > 0);
    }
    CHECK(blocks_under(folder.path()).size() == 20);
  }
  CHECK(*bench.scan() > 0);
  auto checksum = bench.checksum();
  for (auto cost : {checksum.in_cache, checksum.from_memory, checksum.memory_alone}) CHECK(cost > 0);
  CHECK_THAT(bench.describe(), Catch::Contains(folder.path().string()));
  REQUIRE(bench.remove());
  CHECK(blocks_under(folder.path()).empty());
}

TEST_CASE("a bench of nothing, or in no directory, is refused") {
  temp_folder folder;
  CHECK_FALSE(store_bench::open({.directory = folder.path(), .blocks = 0}));
  CHECK_FALSE(store_bench::open({.directory = folder.path(), .block_bytes = 0}));
  CHECK_FALSE(store_bench::open({.directory = ""}));
}

} // namespace
} // namespace dualpath::storage::testing

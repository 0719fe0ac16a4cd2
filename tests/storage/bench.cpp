#include "storage/bench.hpp"

#include "fixture.hpp"

namespace dualpath::storage::testing {
namespace {

TEST_CASE("the bench measures every figure and leaves no block behind") {
  temp_folder folder{"/dev/shm"};
  auto result = bench_store({.directory = folder.path(),
                             .block_bytes = 100'000,
                             .blocks = 20,
                             .reads_per_block = 2,
                             .in_flight = 4});
  INFO((result ? "" : result.error().text));
  REQUIRE(result);
  CHECK(result->write_gb_per_s > 0);
  CHECK(result->read_gb_per_s > 0);
  CHECK(result->checksum_gb_per_s > 0);
  CHECK(result->write_cpu_s_per_gb > 0);
  CHECK(result->read_cpu_s_per_gb > 0);
  CHECK(result->scan_blocks_per_s > 0);
  CHECK_THAT(result->store, Catch::Contains(folder.path().string()));
  CHECK(blocks_under(folder.path()).empty());
}

TEST_CASE("a bench of nothing, or in no directory, is refused") {
  temp_folder folder;
  CHECK_FALSE(bench_store({.directory = folder.path(), .blocks = 0}));
  CHECK_FALSE(bench_store({.directory = folder.path(), .block_bytes = 0}));
  CHECK_FALSE(bench_store({.directory = ""}));
}

} // namespace
} // namespace dualpath::storage::testing

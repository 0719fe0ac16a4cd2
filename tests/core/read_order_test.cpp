#include "core/policy/read_order.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;

TEST_CASE("reads are served in the order in which they came where nothing is split") {
  for (auto p : {policy::dualpath, policy::basic, policy::round_robin, policy::oracle}) {
    CHECK(read_due(p, 100, 1'000'000) < read_due(p, 101, 1));
    CHECK(read_due(p, 100, 1'000'000) == read_due(p, 100, 1));
  }
}

TEST_CASE("a short read overtakes a long one that came just before it") {
  CHECK(read_due(policy::split, 110, 10) < read_due(policy::split, 100, 1000));
}

TEST_CASE("a long read is overtaken only so long: what comes after it is due stays behind it") {
  auto due = read_due(policy::split, 100, 1000);
  CHECK(due > 100);
  CHECK(due < read_due(policy::split, due, 1));
}

TEST_CASE("of reads that come together the shorter is served first, equals in turn") {
  CHECK(read_due(policy::split, 100, 10) < read_due(policy::split, 100, 11));
  CHECK(read_due(policy::split, 100, 10) == read_due(policy::split, 100, 10));
}

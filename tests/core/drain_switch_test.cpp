#include "core/drain_switch.hpp"

#include <catch2/catch.hpp>

using dualpath::core::drain_switch;

TEST_CASE("a drain switch tells whoever is attached, once", "[drain_switch]") {
  drain_switch drain;
  int told = 0;
  drain.attach([&] { ++told; });
  CHECK_FALSE(drain.requested());
  drain.request();
  drain.request();
  CHECK(drain.requested());
  CHECK(told == 1);
}

TEST_CASE("a drain switch that was thrown before a run ends it at its start", "[drain_switch]") {
  drain_switch drain;
  drain.request();
  int told = 0;
  drain.attach([&] { ++told; });
  CHECK(told == 1);
}

TEST_CASE("a drain switch says nothing to a run that is over", "[drain_switch]") {
  drain_switch drain;
  int told = 0;
  drain.attach([&] { ++told; });
  drain.detach();
  drain.request();
  CHECK(told == 0);
  CHECK(drain.requested());
}

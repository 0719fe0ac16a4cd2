#include "core/gate.hpp"

#include <catch2/catch.hpp>

#include <vector>

using dualpath::core::gate;

TEST_CASE("an empty gate calls back at once") {
  gate g;
  int called = 0;
  g.when_empty([&] { ++called; });
  CHECK(called == 1);
}

TEST_CASE("a gate calls back once, when the last copy of the last pass is gone") {
  gate g;
  int called = 0;
  auto first = g.enter();
  auto copy = first;
  auto second = g.enter();
  g.when_empty([&] { ++called; });
  first.reset();
  second.reset();
  CHECK(called == 0);
  copy.reset();
  CHECK(called == 1);
  g.enter().reset();
  CHECK(called == 1);
}

TEST_CASE("a pass may outlive its gate") {
  gate::pass left;
  {
    gate g;
    left = g.enter();
  }
  left.reset();
  SUCCEED();
}

#include "core/policy/read_pause.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;

namespace {

constexpr duration interval = std::chrono::seconds{2}, patience = std::chrono::seconds{30};
constexpr instant at(int s) { return std::chrono::seconds{s}; }
constexpr node_id here{1}, there{2};

} // namespace

TEST_CASE("a node whose read failed is avoided for the pause, and no other node is", "[read_pause]") {
  read_pause reads{interval, patience};
  CHECK_FALSE(reads.avoids(here, at(10)));
  reads.failed(here, at(10));
  CHECK(reads.avoids(here, at(11)));
  CHECK_FALSE(reads.avoids(there, at(11)));
  CHECK_FALSE(reads.avoids(here, at(12)));
}

TEST_CASE("after the pause one read goes there, and others only when it has succeeded", "[read_pause]") {
  read_pause reads{interval, patience};
  reads.failed(here, at(10));
  reads.placed(here, at(20));
  CHECK(reads.avoids(here, at(20)));
  CHECK(reads.avoids(here, at(49)));
  SECTION("it succeeds") {
    reads.succeeded(here);
    CHECK_FALSE(reads.avoids(here, at(21)));
    reads.placed(here, at(21));
    CHECK_FALSE(reads.avoids(here, at(21)));
  }
  SECTION("it fails") {
    reads.failed(here, at(21));
    CHECK(reads.avoids(here, at(22)));
    CHECK_FALSE(reads.avoids(here, at(23)));
  }
  SECTION("nothing is heard of it") { CHECK_FALSE(reads.avoids(here, at(50))); }
}

TEST_CASE("reads that began before one failed do not end the pause, nor do those placed for want of another",
          "[read_pause]") {
  read_pause reads{interval, patience};
  reads.placed(here, at(9));
  reads.failed(here, at(10));
  reads.succeeded(here);
  CHECK(reads.avoids(here, at(11)));
  reads.placed(here, at(11));
  CHECK_FALSE(reads.avoids(here, at(12)));
}

TEST_CASE("a node that never failed is not avoided, whatever is placed or succeeds there", "[read_pause]") {
  read_pause reads{interval, patience};
  reads.placed(here, at(1));
  reads.succeeded(here);
  CHECK_FALSE(reads.avoids(here, at(1)));
}

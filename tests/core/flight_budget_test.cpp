#include "core/flight_budget.hpp"

#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>

using namespace dualpath::core;

namespace {

constexpr node_id one{1}, other{2};

} // namespace

TEST_CASE("a peer is given requests until the bound is reached, and again once it has answered",
          "[flight_budget]") {
  flight_budget budget{100};
  CHECK(budget.has_room(one));
  budget.give(one, request_id{1}, 60);
  CHECK(budget.has_room(one));
  budget.give(one, request_id{2}, 60);
  CHECK_FALSE(budget.has_room(one));
  CHECK(budget.in_flight_bytes(one) == 120);
  CHECK(budget.acknowledge(request_id{1}));
  CHECK(budget.has_room(one));
  CHECK(budget.in_flight_bytes(one) == 60);
}

TEST_CASE("a request larger than the bound goes alone rather than never", "[flight_budget]") {
  flight_budget budget{10};
  CHECK(budget.has_room(one));
  budget.give(one, request_id{1}, 1000);
  CHECK_FALSE(budget.has_room(one));
  budget.acknowledge(request_id{1});
  CHECK(budget.has_room(one));
}

TEST_CASE("peers do not spend each other's budget", "[flight_budget]") {
  flight_budget budget{10};
  budget.give(one, request_id{1}, 10);
  CHECK_FALSE(budget.has_room(one));
  CHECK(budget.has_room(other));
}

TEST_CASE("an answer counts once, and one about nothing that is in flight not at all", "[flight_budget]") {
  flight_budget budget{10};
  budget.give(one, request_id{1}, 6);
  budget.give(one, request_id{2}, 3);
  CHECK(budget.acknowledge(request_id{1}));
  CHECK_FALSE(budget.acknowledge(request_id{1}));
  CHECK_FALSE(budget.acknowledge(request_id{9}));
  CHECK(budget.in_flight_bytes(one) == 3);
}

TEST_CASE("a request that is given again, elsewhere or there, is in flight once", "[flight_budget]") {
  flight_budget budget{10};
  budget.give(one, request_id{1}, 6);
  budget.give(other, request_id{1}, 7);
  CHECK(budget.in_flight_bytes(one) == 0);
  CHECK(budget.in_flight_bytes(other) == 7);
  budget.give(other, request_id{1}, 8);
  CHECK(budget.in_flight_bytes(other) == 8);
}

TEST_CASE("a bound of 0 is none", "[flight_budget]") {
  flight_budget budget;
  budget.give(one, request_id{1}, std::uint64_t{1} << 60);
  CHECK(budget.has_room(one));
}

TEST_CASE("whatever is given and answered in whatever order, no peer ever has more than the bound and one "
          "request in flight, and nothing is left at the end",
          "[flight_budget]") {
  DUALPATH_RANDOM(random);
  constexpr std::uint64_t bound = 5000, largest = 900;
  flight_peaks peaks;
  flight_budget budget{bound, &peaks};
  std::deque<request_id> in_flight;
  std::uint64_t next = 0;
  for (int step = 0; step < 20000; ++step) {
    node_id peer{static_cast<std::uint32_t>(random.between(0, 2))};
    if (random.chance(0.5) && budget.has_room(peer)) {
      budget.give(peer, request_id{++next}, random.between(1, largest));
      in_flight.push_back(request_id{next});
    } else if (!in_flight.empty()) {
      std::swap(in_flight[random.between(0, in_flight.size() - 1)], in_flight.back());
      REQUIRE(budget.acknowledge(in_flight.back()));
      in_flight.pop_back();
    }
  }
  for (auto request : in_flight) REQUIRE(budget.acknowledge(request));
  for (std::uint32_t peer = 0; peer < 3; ++peer) {
    CHECK(budget.in_flight_bytes(node_id{peer}) == 0);
    CHECK(peaks.all()[node_id{peer}] < bound + largest);
    CHECK(peaks.all()[node_id{peer}] >= bound); // the bound was what held it back
  }
}

TEST_CASE("a peak is the most that was ever in flight", "[flight_budget]") {
  flight_peaks peaks;
  flight_budget budget{100, &peaks};
  budget.give(one, request_id{1}, 30);
  budget.give(one, request_id{2}, 40);
  budget.acknowledge(request_id{1});
  budget.give(one, request_id{3}, 10);
  CHECK(peaks.all() == std::map<node_id, std::uint64_t>{{one, 70}});
}

#include "core/policy/token_bucket.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

using namespace dualpath::core;
using namespace std::chrono_literals;

TEST_CASE("an item starts on a balance that is not negative and leaves its whole size as debt") {
  token_bucket bucket{1000, 100};
  CHECK(bucket.ready_at(0s) == 0s);
  bucket.take(2100, 0s);
  CHECK(bucket.ready_at(0s) == 2s);
  CHECK(bucket.ready_at(3s) == 3s);
  bucket.take(1000, 2s);
  CHECK(bucket.ready_at(2s) == 3s);
}

TEST_CASE("an idle bucket saves no more than its burst") {
  token_bucket bucket{1000, 500};
  bucket.take(500, 100s);
  CHECK(bucket.ready_at(100s) == 100s);
  bucket.take(1000, 100s);
  CHECK(bucket.ready_at(100s) == 101s);
}

TEST_CASE("an unlimited bucket is always ready") {
  token_bucket bucket{0, 0};
  bucket.take(1ull << 60, 5s);
  CHECK(bucket.ready_at(5s) == 5s);
}

TEST_CASE("a debt longer than time itself does not wrap around") {
  token_bucket bucket{1e-3, 0};
  for (int i = 0; i < 10; ++i) bucket.take(1ull << 60, 0s);
  CHECK(bucket.ready_at(0s) > 24h * 365 * 100);
}

TEST_CASE("token bucket: never more than burst and rate allow, and exactly that while items wait") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 100; ++round) {
    double rate = std::pow(10, random.real(2, 11));
    auto burst = random.between(0, 1'000'000);
    auto largest = random.between(1, 2'000'000);
    INFO("rate " << rate << ", burst " << burst);
    token_bucket bucket{rate, burst};
    instant now{0};
    double balance = static_cast<double>(burst), since_idle = 0;
    for (int i = 0; i < 2000; ++i) {
      auto arrival = now;
      if (random.chance(0.05))
        arrival += from_seconds(random.real(0, 3) * static_cast<double>(burst + largest) / rate);
      auto ready = bucket.ready_at(arrival);
      REQUIRE(ready >= arrival);
      REQUIRE(bucket.ready_at(ready) == ready);
      balance = std::min(static_cast<double>(burst), balance + rate * to_seconds(ready - now));
      // The clock counts whole nanoseconds: an item may start up to one late.
      double one_ns = rate * 1e-9, rounding = 1e-9 * (static_cast<double>(burst) + 2e6) * ++since_idle;
      REQUIRE(balance >= -rounding);
      if (ready > arrival) REQUIRE(balance <= one_ns + rounding);
      now = ready;
      auto bytes = random.between(1, largest);
      bucket.take(bytes, now);
      balance -= static_cast<double>(bytes);
    }
  }
}

TEST_CASE("over a long time the rate of a token bucket is exact within burst and one item") {
  DUALPATH_RANDOM(random);
  double rate = random.real(1e6, 1e9);
  constexpr std::uint64_t burst = 65536, item = 100'000;
  token_bucket bucket{rate, burst};
  instant now{0};
  double bytes = 0;
  for (int i = 0; i < 200'000; ++i) {
    now = bucket.ready_at(now);
    bucket.take(item, now);
    bytes += item;
  }
  CHECK(std::abs(bytes - rate * to_seconds(now)) <= burst + item + 1.0);
}

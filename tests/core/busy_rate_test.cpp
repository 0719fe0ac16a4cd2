#include "core/policy/busy_rate.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;
using std::chrono::milliseconds;

namespace {

/// Ten units every 100 ms, so many times.
instant work(busy_rate& rate, instant now, int times, std::uint64_t units = 10) {
  rate.begin(now);
  for (int i = 0; i < times; ++i) rate.done(units, now += milliseconds{100});
  rate.end(now);
  return now;
}

} // namespace

TEST_CASE("a device that has not worked yet has no rate") {
  busy_rate rate{milliseconds{2000}};
  CHECK(rate.per_s() == 0);
  rate.begin(milliseconds{5});
  CHECK(rate.per_s() == 0);
  rate.done(1, milliseconds{6});
  CHECK(rate.per_s() == 0);
}

TEST_CASE("the rate of a device counts the time in which it has work, not when it idles") {
  busy_rate rate{milliseconds{2000}};
  instant now{0};
  for (int i = 0; i < 50; ++i) now = work(rate, now, 4) + milliseconds{900};
  CHECK(rate.per_s() == Approx(100).epsilon(0.05));
}

TEST_CASE("work that is announced twice counts its time once") {
  busy_rate rate{milliseconds{2000}};
  rate.begin(milliseconds{0});
  rate.begin(milliseconds{500});
  rate.done(100, milliseconds{1000});
  CHECK(rate.per_s() == Approx(100));
  rate.end(milliseconds{1000});
  auto before = rate.per_s();
  rate.end(milliseconds{9000});
  CHECK(rate.per_s() == before);
}

TEST_CASE("a device that becomes slower is known to be slower after a few of its memories") {
  busy_rate rate{milliseconds{2000}};
  auto now = work(rate, instant{0}, 100, 100);
  CHECK(rate.per_s() == Approx(1000).epsilon(0.05));
  work(rate, now, 100, 10);
  CHECK(rate.per_s() == Approx(100).epsilon(0.15));
}

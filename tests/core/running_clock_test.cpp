#include "core/running_clock.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

using namespace dualpath::core;
using namespace std::chrono_literals;

namespace {

constexpr duration interval = 250ms;

/// Time of a process that can be paused: it passes, but nothing is called until the process runs again.
class stoppable_clock final : public clock {
public:
  instant now() const override { return now_; }
  void call_at(instant when, std::function<void()> action) override {
    pending_.emplace(when, std::move(action));
  }
  void pause(duration length) { now_ += length; }
  void run(duration length) {
    auto end = now_ + length;
    while (!pending_.empty() && pending_.begin()->first <= end) {
      auto next = pending_.extract(pending_.begin());
      now_ = std::max(now_, next.key());
      next.mapped()();
    }
    now_ = end;
  }

private:
  instant now_{0};
  std::multimap<instant, std::function<void()>> pending_;
};

struct paused_process {
  stoppable_clock* wall = new stoppable_clock;
  running_clock clock{std::unique_ptr<dualpath::core::clock>{wall}, interval};
};

} // namespace

TEST_CASE("while the process runs its clock is the wall clock") {
  paused_process process;
  process.wall->run(10s);
  CHECK(process.clock.now() == 10s);
  std::vector<instant> called;
  for (auto when : {12s, 11s, 9s})
    process.clock.call_at(when, [&] { called.push_back(process.clock.now()); });
  process.wall->run(5s);
  CHECK(called == std::vector<instant>{10s, 11s, 12s});
  CHECK(process.clock.now() == process.wall->now());
}

TEST_CASE("however long a pause is, it counts as two intervals at most, and what is due later comes later") {
  paused_process process;
  int due = 0;
  process.clock.call_at(30s, [&] { ++due; });
  process.wall->run(10s);
  process.wall->pause(1h);
  CHECK(process.clock.now() == 10s + 2 * interval);
  process.wall->run(19s);
  CHECK(process.clock.now() == 29s + 2 * interval);
  CHECK(due == 0);
  process.wall->run(1s);
  CHECK(due == 1);
}

TEST_CASE("whatever pauses there are, the clock never goes back and calls everything once, never early, and "
          "all that is due when the process runs again") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 50; ++round) {
    paused_process process;
    auto& clock = process.clock;
    std::vector<int> calls;
    std::vector<instant> due;
    instant before{0};
    for (int i = 0; i < 300; ++i) {
      auto when = clock.now() + from_seconds(random.real(-0.1, 3));
      auto number = calls.size();
      calls.push_back(0);
      due.push_back(when);
      clock.call_at(when, [&calls, &clock, number, when] {
        ++calls[number];
        REQUIRE(clock.now() >= when);
      });
      auto ran = from_seconds(random.real(0, 0.5));
      process.wall->run(ran);
      for (std::size_t n = 0; n < due.size(); ++n)
        if (due[n] <= clock.now()) REQUIRE(calls[n] == 1);
      REQUIRE(clock.now() >= before);
      if (random.chance(0.2)) process.wall->pause(from_seconds(random.real(0, 20)));
      REQUIRE(clock.now() >= before);
      before = clock.now();
    }
    process.wall->run(4s);
    REQUIRE(std::all_of(calls.begin(), calls.end(), [](int times) { return times == 1; }));
  }
}

TEST_CASE("for no thread does the clock go back while others tick") {
  running_clock clock{std::make_unique<steady_clock>(), 20us};
  std::atomic<int> backwards{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      instant before{0};
      for (int n = 0; n < 100'000; ++n) {
        auto now = clock.now();
        if (now < before) ++backwards;
        before = now;
      }
    });
  for (auto& reader : readers) reader.join();
  CHECK(backwards == 0);
}

#include "core/policy/silence_watch.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <utility>

using namespace dualpath::core;
using namespace std::chrono_literals;

namespace {

constexpr duration interval = 250ms, timeout = 5s;
using peers = std::vector<silence_watch::peer>;

/// A process that runs and is paused in turns, and ticks as soon as it may.
class timeline {
public:
  explicit timeline(dualpath::tests::random_source& random) : random_{random} {}

  instant last_tick() const { return last_; }
  instant next_tick() const { return next_; }
  /// Of the time up to the last tick.
  duration ran() const { return ran_; }

  void go_on() {
    last_ = next_;
    auto due = last_ + interval;
    while (now_ < due) {
      auto runs = some(random_.chance(0.5) ? 400ms : 20ms), paused = random_.chance(0.2) ? some(9s) : 0ns;
      auto until_due = std::max(0ns, due - now_);
      ran_next_ += std::min(runs, until_due);
      if (runs >= until_due) {
        now_ = due;
      } else {
        now_ += runs + paused;
      }
    }
    next_ = now_;
  }
  /// The last tick is told.
  void ticked() { ran_ += std::exchange(ran_next_, 0ns); }
  instant some_instant() const {
    return last_ + duration{static_cast<std::int64_t>(random_.real(0, 1) * double((next_ - last_).count()))};
  }

private:
  duration some(duration most) const { return from_seconds(random_.real(0, to_seconds(most))); }

  dualpath::tests::random_source& random_;
  instant now_{0}, last_{0}, next_{0};
  duration ran_{0}, ran_next_{0};
};

} // namespace

TEST_CASE("a peer that is silent for longer than the timeout is told at the next tick, and again until it is "
          "forgotten") {
  silence_watch watch{timeout, interval, 0s};
  watch.heard(1, 0s);
  watch.heard(2, 0s);
  for (instant now = interval; now <= 5s; now += interval) {
    watch.heard(2, now);
    CHECK(watch.tick(now) == 0s);
    CHECK(watch.silent().empty());
  }
  watch.heard(2, 5100ms);
  watch.tick(5250ms);
  CHECK(watch.silent() == peers{1});
  watch.tick(5500ms);
  CHECK(watch.silent() == peers{1});
  watch.forget(1);
  CHECK(watch.silent().empty());
}

TEST_CASE("a pause of this process is told by how late the tick after it comes, and counts as two intervals "
          "of silence") {
  silence_watch watch{timeout, interval, 0s};
  watch.heard(1, 0s);
  CHECK(watch.tick(250ms) == 0s);
  CHECK(watch.tick(7500ms) == 7250ms - interval);
  CHECK(watch.silent().empty());
  for (instant now = 7750ms; now <= 11750ms; now += interval) watch.tick(now); // 0.75 s and 4.25 s
  CHECK(watch.silent().empty());
  watch.tick(12s);
  CHECK(watch.silent() == peers{1});
}

TEST_CASE(
    "time before a tick that is late by less than an interval counts in full, of any other two intervals") {
  running_time running{interval, 10s};
  CHECK(running.tick(10500ms) == 250ms);
  CHECK(running.at(10500ms) == 500ms);
  CHECK(running.at(10700ms) == 700ms);
  CHECK(running.at(20s) == 1s);
  CHECK(running.tick(20s) == 9250ms);
  CHECK(running.at(20s) == 1s);
}

TEST_CASE("a peer heard before the pause is over has been silent since then at most") {
  silence_watch watch{timeout, interval, 0s};
  watch.heard(1, 0s);
  watch.heard(1, 60s); // this process goes on, and reads before it ticks
  watch.tick(60s);
  for (instant now = 60250ms; now <= 65s; now += interval) watch.tick(now);
  CHECK(watch.silent().empty());
  watch.tick(65250ms);
  CHECK(watch.silent() == peers{1});
}

TEST_CASE("a peer that is heard between any two ticks is never suspected, whatever pauses there are") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 50; ++round) {
    timeline process{random};
    silence_watch watch{1s, interval, 0s};
    watch.heard(1, 0s);
    for (int i = 0; i < 500; ++i) {
      process.go_on();
      watch.heard(1, process.some_instant());
      watch.tick(process.next_tick());
      REQUIRE(watch.silent().empty());
    }
  }
}

TEST_CASE("a dead peer is suspected within the timeout and three ticks of running time, not before the "
          "timeout, and for good") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 200; ++round) {
    timeline process{random};
    silence_watch watch{timeout, interval, 0s};
    auto lives_for = random.between(0, 100);
    instant heard{0};
    duration ran_when_heard{0};
    watch.heard(1, heard);
    bool suspected = false;
    for (std::uint64_t i = 0; i < lives_for + 200; ++i) {
      process.go_on();
      if (i < lives_for) {
        heard = process.some_instant();
        ran_when_heard = process.ran(); // at least
        watch.heard(1, heard);
      }
      watch.tick(process.next_tick());
      process.ticked();
      auto now = !watch.silent().empty();
      if (suspected) REQUIRE(now);
      suspected = now;
      if (process.next_tick() - heard <= timeout) REQUIRE_FALSE(suspected);
      if (process.ran() - ran_when_heard > timeout + 3 * interval) REQUIRE(suspected);
    }
    REQUIRE(suspected);
  }
}

TEST_CASE(
    "silence counts no more than two intervals a tick, and no less than the time that the process ran") {
  DUALPATH_RANDOM(random);
  timeline process{random};
  running_time running{interval, 0s};
  duration before{0};
  for (int i = 0; i < 20'000; ++i) {
    process.go_on();
    auto length = process.next_tick() - process.last_tick();
    REQUIRE(running.tick(process.next_tick()) == length - interval);
    process.ticked();
    auto now = running.at(process.next_tick());
    REQUIRE(now - before == std::min(length, 2 * interval));
    REQUIRE(now >= process.ran());
    before = now;
  }
}

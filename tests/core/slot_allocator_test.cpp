#include "core/slot_allocator.hpp"

#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

using dualpath::core::slot_allocator;

namespace {

using slot_list = std::vector<std::uint32_t>;

/// The lengths of the runs of free slots, longest first.
slot_list free_runs(const std::vector<bool>& used) {
  slot_list runs;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i <= used.size(); ++i) {
    if (i < used.size() && !used[i]) {
      ++length;
    } else if (length > 0) {
      runs.push_back(length);
      length = 0;
    }
  }
  std::sort(runs.rbegin(), runs.rend());
  return runs;
}

std::uint32_t runs_in(const slot_list& slots) {
  std::uint32_t runs = slots.empty() ? 0 : 1;
  for (std::size_t i = 1; i < slots.size(); ++i)
    if (slots[i] != slots[i - 1] + 1) ++runs;
  return runs;
}

/// The fewest runs of free slots that `count` slots can be taken from.
std::uint32_t fewest_runs(const slot_list& runs, std::uint32_t count) {
  std::uint32_t taken = 0, number = 0;
  while (taken < count) taken += runs.at(number++);
  return number;
}

} // namespace

TEST_CASE("a grant is whole, in rising order, of free slots only, and in as few runs as possible",
          "[slot_allocator]") {
  DUALPATH_RANDOM(random);
  for (int pool = 0; pool < 40; ++pool) {
    auto capacity = static_cast<std::uint32_t>(random.between(1, 70));
    slot_allocator slots{capacity};
    std::vector<bool> used(capacity, false);
    std::vector<slot_list> grants;
    for (int step = 0; step < 300; ++step) {
      auto free = static_cast<std::uint32_t>(std::count(used.begin(), used.end(), false));
      if (random.chance(0.5) || grants.empty()) {
        auto count = static_cast<std::uint32_t>(random.between(0, std::min(capacity + 2, 12u)));
        auto runs = free_runs(used);
        auto granted = slots.allocate(count);
        REQUIRE(granted.has_value() == (count <= free));
        if (!granted) continue;
        REQUIRE(granted->size() == count);
        REQUIRE(std::is_sorted(granted->begin(), granted->end()));
        for (auto slot : *granted) {
          REQUIRE(slot < capacity);
          REQUIRE_FALSE(used[slot]);
          used[slot] = true;
        }
        REQUIRE(runs_in(*granted) <= fewest_runs(runs, count));
        grants.push_back(*granted);
      } else {
        auto which = random.between(0, grants.size() - 1);
        auto back = grants[which];
        grants.erase(grants.begin() + static_cast<std::ptrdiff_t>(which));
        // A landing gives its slots back in parts and in any order.
        auto part = static_cast<std::ptrdiff_t>(random.between(0, back.size()));
        std::reverse(back.begin(), back.begin() + part);
        for (auto slot : back) used[slot] = false;
        slots.release(std::span{back}.first(static_cast<std::size_t>(part)));
        slots.release(std::span{back}.subspan(static_cast<std::size_t>(part)));
      }
      REQUIRE(slots.free_slots() == std::count(used.begin(), used.end(), false));
    }
  }
}

TEST_CASE("the first run that is long enough is taken", "[slot_allocator]") {
  slot_allocator slots{10};
  auto all = slots.allocate(10);
  REQUIRE(all);
  slots.release(slot_list{1, 2, 5, 6, 7});
  CHECK(slots.allocate(3) == slot_list{5, 6, 7});
  CHECK(slots.allocate(1) == slot_list{1});
}

TEST_CASE("slots that come back one by one are one run again", "[slot_allocator]") {
  DUALPATH_RANDOM(random);
  slot_allocator slots{64};
  auto back = *slots.allocate(64);
  for (std::size_t i = back.size() - 1; i > 0; --i) std::swap(back[i], back[random.between(0, i)]);
  for (auto slot : back) slots.release({&slot, 1});
  slot_list expected(64);
  std::iota(expected.begin(), expected.end(), 0u);
  CHECK(slots.allocate(64) == expected);
}

TEST_CASE("a pool without slots grants nothing but an empty grant", "[slot_allocator]") {
  slot_allocator slots;
  CHECK(slots.capacity() == 0);
  CHECK(slots.allocate(0) == slot_list{});
  CHECK_FALSE(slots.allocate(1));
}

// What lanes look up without locks: lists that only grow, and the regions that their transfers use.
#include "net/append_only.hpp"
#include "net/lane_regions.hpp"
#include "tests/net/world.hpp"

#include <atomic>
#include <cstring>
#include <thread>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

TEST_CASE("a list that grows is read by others meanwhile: every entry they see is the right one") {
  append_only<std::uint32_t> list;
  constexpr std::uint32_t count = 100'000;
  std::atomic<std::uint32_t> wrong{0}, seen{0};
  std::thread reader{[&] {
    for (std::size_t size = 0; size < count;) {
      size = list.size();
      for (auto i : {std::size_t{0}, size / 2, size - 1}) {
        if (size == 0) continue;
        ++seen;
        if (list.at_or_none(i) != i + 1) ++wrong;
      }
      if (list.at_or_none(count) != 0) ++wrong;
    }
  }};
  for (std::uint32_t i = 0; i < count; ++i) list.push_back(i + 1);
  reader.join();
  CHECK(wrong == 0);
  CHECK(seen > 0);
  CHECK(list.size() == count);
}

TEST_CASE("a released region is not found any more, and goes with its last use") {
  std::shared_ptr<ucx_region> region{reinterpret_cast<ucx_region*>(8), [](ucx_region*) {}};
  std::weak_ptr<ucx_region> alive = region;
  lane_regions regions;
  core::region_id id{3};
  CHECK(regions.find(id) == nullptr);
  region_use kept;
  {
    region_use first{regions.keep(id, std::move(region))};
    REQUIRE(regions.find(id) != nullptr);
    kept = std::move(first);
  }
  regions.release(id);
  CHECK(regions.find(id) == nullptr);
  CHECK_FALSE(alive.expired());
  kept = {};
  CHECK(alive.expired());
  regions.release(id);
  regions.release(core::region_id{99});
  CHECK(regions.find(core::region_id{99}) == nullptr);
}

TEST_CASE("a region that nothing uses goes at once when it is released") {
  std::shared_ptr<ucx_region> region{reinterpret_cast<ucx_region*>(8), [](ucx_region*) {}};
  std::weak_ptr<ucx_region> alive = region;
  lane_regions regions;
  { region_use used{regions.keep(core::region_id{0}, std::move(region))}; }
  CHECK_FALSE(alive.expired());
  regions.release(core::region_id{0});
  CHECK(alive.expired());
}

TEST_CASE("messages that completions and other threads send keep the order in which they were sent") {
  FOR_EVERY_WORLD(around);
  pair_of_fabrics pair{around, 4096};
  outcome<std::uint32_t> came;
  pair.b->on_message([came](peer_id, lane, message m) mutable {
    std::uint32_t number = 0;
    std::memcpy(&number, m.payload.data(), sizeof number);
    came.set(number);
  });
  constexpr std::uint32_t count = 600;
  struct sender {
    std::mutex mutex;
    std::uint32_t next = 0;
    fabric* on;
    peer_id to;
    core::instant deadline;

    /// The lock makes the order of the calls known. Each completion sends one more.
    void send() {
      std::lock_guard lock{mutex};
      if (next == count) return;
      message m{1, std::vector<std::byte>(sizeof next)};
      std::memcpy(m.payload.data(), &next, sizeof next);
      ++next;
      on->send(to, lane::kv, std::move(m), deadline, [this](core::result<void>) { send(); });
    }
  } from;
  from.on = pair.a.get();
  from.to = pair.b_at_a;
  from.deadline = around.soon();
  std::thread other{[&] {
    for (std::uint32_t i = 0; i < count / 4; ++i) from.send();
  }};
  for (std::uint32_t i = 0; i < count / 4; ++i) from.send();
  other.join();
  auto numbers = around.await(came, count);
  for (std::uint32_t i = 0; i < count; ++i) REQUIRE(numbers[i] == i);
}

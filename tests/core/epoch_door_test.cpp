#include "core/epoch_door.hpp"
#include "core/lease.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <vector>

using namespace dualpath::core;

TEST_CASE("an epoch older than one that was seen of the request is not admitted, whoever saw it first",
          "[epoch_door]") {
  epoch_door door;
  CHECK(door.admits(request_id{1}, epoch{4}));
  door.reached(request_id{1}, epoch{8});
  CHECK_FALSE(door.admits(request_id{1}, epoch{4}));
  CHECK(door.admits(request_id{1}, epoch{8})); // told again
  CHECK(door.admits(request_id{1}, epoch{12}));
  CHECK(door.admits(request_id{2}, epoch{4}));
  door.reached(request_id{1}, epoch{4}); // late itself
  CHECK_FALSE(door.admits(request_id{1}, epoch{4}));
}

TEST_CASE("an epoch that has ended is not admitted again, the next one is", "[epoch_door]") {
  epoch_door door;
  door.ended(request_id{1}, epoch{4});
  CHECK_FALSE(door.admits(request_id{1}, epoch{4}));
  CHECK(door.admits(request_id{1}, decode_epoch(epoch{4})));
  CHECK(door.admits(request_id{1}, epoch{8}));
}

TEST_CASE("what is older than every open request is not admitted, and need not be remembered",
          "[epoch_door]") {
  epoch_door door;
  door.ended(request_id{1}, epoch{4});
  door.reached(request_id{2}, epoch{8});
  door.forget_below(epoch{8});
  CHECK(door.remembered() == 1);
  CHECK_FALSE(door.admits(request_id{1}, epoch{4}));
  CHECK_FALSE(door.admits(request_id{3}, epoch{6}));
  CHECK(door.admits(request_id{2}, epoch{8}));
  door.forget_below(epoch{2}); // an old word
  CHECK_FALSE(door.admits(request_id{3}, epoch{6}));
  door.ended(request_id{1}, epoch{4});
  CHECK(door.remembered() == 1);
}

TEST_CASE("beyond its bound a door forgets the oldest epochs", "[epoch_door]") {
  epoch_door door{2};
  for (std::uint64_t id : {1, 2, 3}) door.ended(request_id{id}, epoch{4 * id});
  CHECK(door.remembered() == 2);
  CHECK(door.admits(request_id{1}, epoch{4}));
  CHECK_FALSE(door.admits(request_id{2}, epoch{8}));
  CHECK_FALSE(door.admits(request_id{3}, epoch{12}));
}

namespace {

struct message {
  request_id request;
  epoch of;
};

/// A ledger whose requests come, are routed again and end, and an engine's door that hears of it in a random
/// order: messages that open something for an attempt wait, and are delivered whenever.
struct model {
  lease_ledger ledger;
  epoch_door door;
  std::vector<message> on_their_way;
  std::map<request_id, epoch> seen; ///< as the door should, without a bound
  std::uint64_t next_id = 1;

  std::vector<request_id> open_requests() const {
    std::vector<request_id> open;
    for (std::uint64_t id = 1; id < next_id; ++id)
      if (ledger.find(request_id{id})) open.push_back(request_id{id});
    return open;
  }
  void see(request_id request, epoch of) { seen[request] = std::max(seen[request], of); }

  void dispatch(request_id id) {
    auto lease = ledger.hand_over(id, ledger.find(id)->epoch, stage::prefill, engine_id{0}, {engine_id{1}});
    on_their_way.push_back({id, lease->epoch});
  }
  void open() {
    request_id id{next_id++};
    REQUIRE(ledger.open(id));
    dispatch(id);
  }
  /// The engine hears of the end of the attempt, or does not.
  void leave(request_id id, bool hears) {
    auto of = ledger.find(id)->epoch;
    if (!hears) return;
    door.ended(id, of);
    see(id, epoch{of.value + 1});
  }
  void deliver(std::size_t which) {
    auto [id, of] = on_their_way[which];
    auto admitted = door.admits(id, of);
    if (ledger.is_current(id, of)) REQUIRE(admitted);
    if (seen.contains(id) && of < seen[id]) REQUIRE_FALSE(admitted);
    if (!admitted) return;
    door.reached(id, of);
    see(id, of);
  }
};

} // namespace

TEST_CASE("a door admits whatever is current, and nothing older than it has seen, in any order",
          "[epoch_door]") {
  DUALPATH_RANDOM(random);
  model m;
  for (int step = 0; step < 4000; ++step) {
    auto open = m.open_requests();
    if (open.size() < 3 || random.chance(0.1)) {
      m.open();
      continue;
    }
    auto id = random.one_of(open);
    if (random.chance(0.1)) {
      m.leave(id, random.chance(0.5));
      REQUIRE(m.ledger.revoke(id));
      m.dispatch(id);
    } else if (random.chance(0.1)) {
      m.leave(id, random.chance(0.5));
      REQUIRE(m.ledger.close(id, m.ledger.find(id)->epoch));
    } else if (random.chance(0.05)) {
      auto oldest = m.ledger.oldest_epoch();
      m.door.forget_below(oldest);
      auto young = std::count_if(m.seen.begin(), m.seen.end(), [&](auto& s) { return s.second >= oldest; });
      REQUIRE(m.door.remembered() == static_cast<std::size_t>(young));
    } else if (!m.on_their_way.empty()) {
      auto which = random.between(0, m.on_their_way.size() - 1);
      m.deliver(which);
      if (random.chance(0.5))
        m.on_their_way.erase(m.on_their_way.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
}

#include "core/lease.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

using namespace dualpath::core;

TEST_CASE("a request goes through its stages with a new epoch at every hand-over") {
  lease_ledger ledger;
  auto opened = ledger.open(request_id{1});
  REQUIRE(opened);
  CHECK(opened->stage == stage::waiting);
  auto prefill = ledger.hand_over(request_id{1}, opened->epoch, stage::prefill, engine_id{5}, {engine_id{9}});
  REQUIRE(prefill);
  CHECK(prefill->epoch > opened->epoch);
  CHECK(ledger.owned_by(engine_id{5}).size() == 1);
  CHECK(ledger.owned_by(engine_id{9}).empty());
  CHECK(ledger.involving(engine_id{9}).size() == 1);
  auto decode = ledger.hand_over(request_id{1}, prefill->epoch, stage::decode, engine_id{9});
  REQUIRE(decode);
  CHECK(ledger.involving(engine_id{5}).empty());
  CHECK(decode->epoch == decode_epoch(prefill->epoch));
  CHECK(ledger.close(request_id{1}, decode->epoch));
  CHECK(ledger.size() == 0);
}

TEST_CASE("an old epoch can neither hand over nor close") {
  lease_ledger ledger;
  auto old = ledger.open(request_id{1})->epoch;
  auto now = ledger.hand_over(request_id{1}, old, stage::prefill, engine_id{5})->epoch;
  auto refused = ledger.hand_over(request_id{1}, old, stage::decode, engine_id{6});
  CHECK(refused.error().code == errc::refused);
  CHECK(ledger.close(request_id{1}, old).error().code == errc::refused);
  CHECK(ledger.find(request_id{1})->owner == engine_id{5});
  CHECK(ledger.is_current(request_id{1}, now));
  CHECK_FALSE(ledger.is_current(request_id{1}, old));
}

TEST_CASE("a revoked request waits, and its former owner is refused") {
  lease_ledger ledger;
  auto epoch = ledger.open(request_id{1})->epoch;
  epoch = ledger.hand_over(request_id{1}, epoch, stage::prefill, engine_id{5}, {engine_id{9}})->epoch;
  auto revoked = ledger.revoke(request_id{1});
  REQUIRE(revoked);
  CHECK(revoked->stage == stage::waiting);
  CHECK(ledger.involving(engine_id{5}).empty());
  CHECK(ledger.involving(engine_id{9}).empty());
  CHECK_FALSE(ledger.close(request_id{1}, epoch));
  CHECK(ledger.hand_over(request_id{1}, revoked->epoch, stage::prefill, engine_id{6}));
}

TEST_CASE("the oldest epoch is that of the oldest open request, and never falls") {
  lease_ledger ledger;
  auto before = ledger.oldest_epoch();
  auto first = ledger.open(request_id{1})->epoch;
  CHECK(before <= first);
  auto second = ledger.open(request_id{2})->epoch;
  CHECK(ledger.oldest_epoch() == first);
  auto revoked = ledger.revoke(request_id{1})->epoch;
  CHECK(ledger.oldest_epoch() == second);
  REQUIRE(ledger.close(request_id{2}, second));
  CHECK(ledger.oldest_epoch() == revoked);
  REQUIRE(ledger.close(request_id{1}, revoked));
  CHECK(ledger.oldest_epoch() > revoked);
  CHECK(ledger.oldest_epoch() <= ledger.open(request_id{3})->epoch);
}

TEST_CASE("a waiting request belongs to no engine, not even to engine 0") {
  lease_ledger ledger;
  REQUIRE(ledger.open(request_id{1}));
  CHECK(ledger.owned_by(engine_id{0}).empty());
}

TEST_CASE("prefill and decode engine know the epoch of their hand-over before the ledger has heard of it") {
  lease_ledger ledger;
  auto opened = ledger.open(request_id{1})->epoch;
  auto prefill = ledger.hand_over(request_id{1}, opened, stage::prefill, engine_id{5}, {engine_id{9}})->epoch;
  auto decode = ledger.hand_over(request_id{1}, prefill, stage::decode, engine_id{9})->epoch;
  CHECK(decode == decode_epoch(prefill));
  CHECK(prefill_epoch(decode) == prefill);
  CHECK(ledger.open(request_id{2})->epoch > decode);
}

TEST_CASE("a request is opened once, and unknown ones are not found") {
  lease_ledger ledger;
  auto epoch = ledger.open(request_id{1})->epoch;
  CHECK(ledger.open(request_id{1}).error().code == errc::invalid_argument);
  CHECK(ledger.hand_over(request_id{1}, epoch, stage::waiting, engine_id{5}).error().code
        == errc::invalid_argument);
  CHECK(ledger.revoke(request_id{2}).error().code == errc::not_found);
  CHECK(ledger.close(request_id{2}, epoch).error().code == errc::not_found);
  CHECK(ledger.hand_over(request_id{2}, epoch, stage::decode, engine_id{5}).error().code == errc::not_found);
}

namespace {

/// The naive model: per request every epoch it ever had, who owns it now, and who takes part.
struct known_request {
  bool open = false;
  std::vector<epoch> epochs;
  stage at = stage::waiting;
  engine_id owner;
  std::set<engine_id> participants;
};

void check_owners(const lease_ledger& ledger, const std::map<request_id, known_request>& known,
                  std::uint32_t engines) {
  std::size_t owned = 0, held = 0;
  for (std::uint32_t e = 0; e < engines; ++e) {
    owned += ledger.owned_by(engine_id{e}).size();
    for (const auto& l : ledger.involving(engine_id{e})) {
      const auto& of = known.at(l.request);
      REQUIRE(of.open);
      REQUIRE(
          ((of.at != stage::waiting && of.owner == engine_id{e}) || of.participants.contains(engine_id{e})));
    }
  }
  for (const auto& [request, of] : known) held += of.open && of.at != stage::waiting;
  REQUIRE(owned == held);
}

} // namespace

TEST_CASE("lease ledger: one owner at any time, and no epoch but the last is ever accepted") {
  DUALPATH_RANDOM(random);
  constexpr std::uint32_t engines = 4;
  for (int round = 0; round < 20; ++round) {
    lease_ledger ledger;
    std::map<request_id, known_request> known;
    auto engine = [&] { return engine_id{static_cast<std::uint32_t>(random.between(0, engines - 1))}; };
    for (int step = 0; step < 600; ++step) {
      request_id id{random.between(0, 9)};
      auto& k = known[id];
      // Half of the calls come from whoever was told last, half from anyone who ever was.
      epoch given = k.epochs.empty()     ? epoch{random.between(0, 50)}
                    : random.chance(0.5) ? k.epochs.back()
                                         : random.one_of(k.epochs);
      bool current = k.open && given == k.epochs.back();
      switch (random.between(0, 3)) {
      case 0: {
        auto opened = ledger.open(id);
        REQUIRE(opened.has_value() == !k.open);
        if (opened) k = {true, k.epochs, stage::waiting, {}, {}}, k.epochs.push_back(opened->epoch);
        break;
      }
      case 1: {
        auto to = random.chance(0.5) ? stage::prefill : stage::decode;
        auto owner = engine();
        std::vector<engine_id> participants;
        if (random.chance(0.5)) participants.push_back(engine());
        auto handed = ledger.hand_over(id, given, to, owner, participants);
        REQUIRE(handed.has_value() == current);
        if (handed)
          k = {true, k.epochs, to, owner, {participants.begin(), participants.end()}},
          k.epochs.push_back(handed->epoch);
        break;
      }
      case 2: {
        auto revoked = ledger.revoke(id);
        REQUIRE(revoked.has_value() == k.open);
        if (revoked) k = {true, k.epochs, stage::waiting, {}, {}}, k.epochs.push_back(revoked->epoch);
        break;
      }
      default:
        REQUIRE(ledger.close(id, given).has_value() == current);
        if (current) k.open = false;
      }
      // Strictly rising: no neighbour is as large as the one after it.
      REQUIRE(std::adjacent_find(k.epochs.begin(), k.epochs.end(), std::greater_equal<>{}) == k.epochs.end());
      for (auto e : k.epochs) REQUIRE(ledger.is_current(id, e) == (k.open && e == k.epochs.back()));
      check_owners(ledger, known, engines);
    }
  }
}

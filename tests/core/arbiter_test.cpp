#include "core/policy/arbiter.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>
#include <vector>

using namespace dualpath::core;

namespace {

/// Lanes whose queues never end, or are closed; messages of random sizes.
class traffic {
public:
  traffic(dualpath::tests::random_source& random, std::size_t lanes, std::uint64_t largest)
      : random_{random}, open_(lanes, true), heads_(lanes), sent_(lanes), largest_{largest} {
    for (std::size_t lane = 0; lane < lanes; ++lane) next(lane);
  }

  std::optional<lane_index> send_one(arbiter& a) {
    auto lane = a.pick(heads_);
    if (!lane) return lane;
    REQUIRE(heads_.at(*lane) > 0);
    sent_[*lane] += heads_[*lane];
    next(*lane);
    return lane;
  }
  void set_open(std::size_t lane, bool open) {
    open_[lane] = open;
    next(lane);
  }
  bool waits(std::size_t lane) const { return heads_[lane] > 0; }
  bool any_waits() const {
    return std::any_of(heads_.begin(), heads_.end(), [](auto bytes) { return bytes > 0; });
  }
  std::uint64_t sent(std::size_t lane) const { return sent_[lane]; }
  double share(std::size_t lane) const {
    std::uint64_t total = 0;
    for (auto bytes : sent_) total += bytes;
    return static_cast<double>(sent_[lane]) / static_cast<double>(total);
  }

private:
  /// Whole units of 64 bytes: anything smaller is charged as one.
  void next(std::size_t lane) { heads_[lane] = open_[lane] ? 64 * random_.between(1, largest_ / 64) : 0; }

  dualpath::tests::random_source& random_;
  std::vector<bool> open_;
  std::vector<std::uint64_t> heads_, sent_;
  std::uint64_t largest_;
};

std::vector<arbiter_entry> random_table(dualpath::tests::random_source& random, std::size_t first,
                                        std::size_t last) {
  std::vector<arbiter_entry> table;
  for (auto lane = first; lane < last; ++lane)
    table.push_back({static_cast<lane_index>(lane), static_cast<std::uint8_t>(random.between(1, 255))});
  return table;
}

double weight_share(const std::vector<arbiter_entry>& table, std::size_t index) {
  double total = 0;
  for (const auto& e : table) total += e.weight;
  return table[index].weight / total;
}

} // namespace

TEST_CASE(
    "lanes of one table share a saturated network by weight within 2 %, whatever the size of messages") {
  DUALPATH_RANDOM(random);
  for (std::uint64_t largest : {64, 4096, 65536, 1'000'000}) {
    auto table = random_table(random, 0, 4);
    for (bool high : {true, false}) {
      arbiter a{high ? arbiter_tables{table, {}, 240} : arbiter_tables{{}, table, 240}};
      traffic t{random, 4, largest};
      // Enough messages that the last one of each lane does not matter.
      for (int i = 0; i < 60'000; ++i) REQUIRE(t.send_one(a));
      for (std::size_t lane = 0; lane < 4; ++lane) {
        INFO("lane " << lane << ", messages up to " << largest);
        CHECK(t.share(lane) == Approx(weight_share(table, lane)).margin(0.02));
      }
    }
  }
}

TEST_CASE(
    "under saturation the low table gets one packet of 4096 bytes for every high limit, whatever the size") {
  DUALPATH_RANDOM(random);
  for (std::uint64_t largest : {4096, 65536, 1'000'000})
    for (std::uint8_t limit : {1, 4, 20}) {
      arbiter a{{{{0, 192}}, {{1, 64}}, limit}};
      traffic t{random, 2, largest};
      for (int i = 0; i < 40'000; ++i) REQUIRE(t.send_one(a));
      INFO("messages up to " << largest << ", limit " << int{limit});
      double packet = largest == 4096 ? 2080 : 4096; // the mean of packets that are not full
      double expected = packet / (packet + limit * 4096.0);
      CHECK(t.share(1) == Approx(expected).margin(0.02));
    }
}

TEST_CASE("with the default tables collectives keep 99 % against saturated KV traffic, which never starves") {
  DUALPATH_RANDOM(random);
  arbiter a;
  traffic t{random, 4, 65536};
  t.set_open(0, false);
  t.set_open(3, false);
  std::uint64_t longest_wait = 0, wait = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto lane = t.send_one(a);
    REQUIRE(lane);
    wait = *lane == 2 ? 0 : wait + 1;
    longest_wait = std::max(longest_wait, wait);
  }
  CHECK(t.share(1) > 0.99);
  CHECK(t.sent(2) > 0);
  CHECK(longest_wait < 20'000);
}

TEST_CASE("KV traffic gets the whole network while collectives are idle, and pays nothing for it") {
  arbiter a;
  std::vector<std::uint64_t> heads{0, 0, 16 << 20, 0};
  for (int i = 0; i < 1000; ++i) REQUIRE(a.pick(heads) == lane_index{2});
  // Lane 1 is in the low table too; both tables together let it send at most a few quotas before lane 2 has
  // its turn.
  heads[1] = 4096;
  std::uint64_t sent_before_bytes = 0;
  while (a.pick(heads) != lane_index{2}) {
    sent_before_bytes += heads[1];
    REQUIRE(sent_before_bytes <= 8 * 240 * 4096);
  }
}

TEST_CASE("a KV lane that was idle does not get the turns it had no use for") {
  arbiter a{{{{0, 192}}, {{1, 64}}, 240}};
  std::vector<std::uint64_t> heads{4096, 0};
  for (int i = 0; i < 100'000; ++i) REQUIRE(a.pick(heads) == lane_index{0});
  heads[1] = 4096;
  CHECK(a.pick(heads) == lane_index{1});
  for (int i = 0; i < 239; ++i) REQUIRE(a.pick(heads) == lane_index{0});
}

TEST_CASE("limit 255: the low table waits until the high one is empty") {
  DUALPATH_RANDOM(random);
  arbiter a{{{{0, 1}}, {{1, 255}}, 255}};
  traffic t{random, 2, 65536};
  for (int i = 0; i < 10'000; ++i) REQUIRE(t.send_one(a) == lane_index{0});
  t.set_open(0, false);
  CHECK(t.send_one(a) == lane_index{1});
}

TEST_CASE("limit 0: the tables send message by message in turn") {
  arbiter a{{{{0, 1}}, {{1, 1}}, 0}};
  std::vector<std::uint64_t> heads{64, 64};
  for (int i = 0; i < 100; ++i) REQUIRE(a.pick(heads) == lane_index(i % 2));
}

TEST_CASE(
    "arbiter: work is conserved and no waiting lane starves, with any tables and any pattern of traffic") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 60; ++round) {
    constexpr std::size_t lanes = 4;
    auto split = random.between(0, lanes);
    arbiter_tables tables{random_table(random, 0, split), random_table(random, split, lanes),
                          static_cast<std::uint8_t>(random.between(0, 254))};
    if (random.chance(0.5)) tables.low = random_table(random, 0, lanes);
    REQUIRE(check_tables(tables, lanes));
    arbiter a{tables};
    traffic t{random, lanes, 64 * random.between(1, 200)};
    // A round of the low table at worst serves it after (255 · 64 B · lanes) and 254 quotas of 4 packets
    // each.
    std::vector<std::uint64_t> waited(lanes);
    constexpr std::uint64_t most_waited = 400'000'000;
    std::uint64_t total_before = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (random.chance(0.1)) t.set_open(random.between(0, lanes - 1), random.chance(0.6));
      bool waiting = t.any_waits();
      auto lane = t.send_one(a);
      REQUIRE(lane.has_value() == waiting);
      std::uint64_t total = 0;
      for (std::size_t l = 0; l < lanes; ++l) total += t.sent(l);
      for (std::size_t l = 0; l < lanes; ++l) {
        waited[l] = !t.waits(l) || (lane && *lane == l) ? 0 : waited[l] + (total - total_before);
        REQUIRE(waited[l] < most_waited);
      }
      total_before = total;
    }
  }
}

TEST_CASE("the debt of one huge message does not hold up a lane that is alone by then") {
  arbiter a{{{{0, 1}, {1, 1}}, {}, 240}};
  std::vector<std::uint64_t> heads{std::uint64_t{1} << 45, 64};
  CHECK(a.pick(heads) == lane_index{0});
  heads[0] = 64;
  for (int i = 0; i < 100; ++i) REQUIRE(a.pick(heads) == lane_index{1});
  heads[1] = 0;
  CHECK(a.pick(heads) == lane_index{0});
}

TEST_CASE("tables that would let a lane starve or name an unknown lane are refused") {
  CHECK(check_tables(arbiter_tables{}, 4));
  CHECK_FALSE(check_tables(arbiter_tables{}, 3));
  CHECK_FALSE(check_tables(arbiter_tables{}, 5));
  CHECK_FALSE(check_tables({{{0, 1}}, {{1, 0}}, 1}, 2));
  CHECK_FALSE(check_tables({std::vector<arbiter_entry>(65, {0, 1}), {}, 1}, 1));
}

TEST_CASE("the tables are written for opensm as it reads them") {
  CHECK(to_opensm_options(arbiter_tables{}, 4)
        == "qos_max_vls 4\n"
           "qos_high_limit 240\n"
           "qos_vlarb_high 0:192,1:192,2:0,3:192\n"
           "qos_vlarb_low 0:192,1:192,2:64,3:192\n");
}

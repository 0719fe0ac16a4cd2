#include "core/policy/link_pacer.hpp"
#include "core/policy/qos.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

using namespace dualpath::core;

namespace {

/// A link that ends messages in the order in which they began; every lane has another message at once, or
/// none.
class fifo_link {
public:
  fifo_link(link_pacer pacer, std::size_t lanes) : pacer_{std::move(pacer)}, heads_(lanes), sent_(lanes) {}

  void wait_with(lane_index lane, std::uint64_t bytes) { heads_[lane] = bytes; }
  /// Hands over what the link has room for; the lanes, in order.
  std::vector<lane_index> fill() {
    std::vector<lane_index> begun;
    while (auto lane = pacer_.next(heads_, now)) {
      begun.push_back(*lane);
      under_way_.push_back({*lane, heads_[*lane]});
      most_bytes_ = std::max(most_bytes_, pacer_.under_way_bytes());
      if (refill) heads_[*lane] = refill(*lane);
      if (!refill) heads_[*lane] = 0;
    }
    return begun;
  }
  void end_one() {
    REQUIRE_FALSE(under_way_.empty());
    auto [lane, bytes] = under_way_.front();
    under_way_.pop_front();
    sent_[lane] += bytes;
    pacer_.finished(bytes);
  }
  bool idle() const { return under_way_.empty(); }
  std::uint64_t sent(lane_index lane) const { return sent_[lane]; }
  std::uint64_t most_bytes() const { return most_bytes_; }
  std::uint64_t under_way_bytes() const { return pacer_.under_way_bytes(); }

  instant now{0};
  std::function<std::uint64_t(lane_index)> refill; ///< size of the next message of a lane; none: no more

private:
  struct message {
    lane_index lane;
    std::uint64_t bytes;
  };
  link_pacer pacer_;
  std::vector<std::uint64_t> heads_, sent_;
  std::deque<message> under_way_;
  std::uint64_t most_bytes_ = 0;
};

arbiter_entry entry(std::size_t lane, std::uint64_t weight) {
  return {static_cast<lane_index>(lane), static_cast<std::uint8_t>(weight)};
}

} // namespace

TEST_CASE(
    "a paced link gives saturated lanes what the tables promise within 2 %, and is never without work") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 12; ++round) {
    qos_config qos;
    qos.classes = {{"a", 0, 0, 0}, {"b", 1, 1, 8}, {"c", 2, 2, 16}};
    qos.tables.high = {entry(0, random.between(40, 255)), entry(1, random.between(40, 255))};
    qos.tables.low = {entry(2, 64)};
    if (random.chance(0.5)) qos.tables.low.push_back(entry(0, random.between(1, 255)));
    qos.tables.high_limit = static_cast<std::uint8_t>(random.between(1, 8));
    // The low table is promised packets of 4096 bytes, so no message is smaller.
    auto most_units = random.between(1, 16);
    auto window = 4096 * random.between(1, 64);
    fifo_link link{link_pacer{qos.tables, {window, random.between(0, window)}}, 3};
    link.refill = [&](lane_index) { return 4096 * random.between(1, most_units); };
    for (lane_index lane = 0; lane < 3; ++lane) link.wait_with(lane, link.refill(lane));
    for (int i = 0; i < 60'000; ++i) {
      link.fill();
      REQUIRE_FALSE(link.idle());
      link.end_one();
    }
    double all = 0;
    for (lane_index lane = 0; lane < 3; ++lane) all += static_cast<double>(link.sent(lane));
    auto promised = sure_shares(qos);
    for (lane_index lane = 0; lane < 3; ++lane) {
      INFO("lane " << int{lane} << ", messages up to " << most_units * 4096 << ", window " << window);
      CHECK(static_cast<double>(link.sent(lane)) / all == Approx(promised[lane]).margin(0.02));
    }
  }
}

TEST_CASE("no more is under way than the window, the reserve and the message that filled it") {
  DUALPATH_RANDOM(random);
  pacing_window window{100'000, 30'000};
  fifo_link link{link_pacer{arbiter_tables{}, window}, 4};
  link.refill = [&](lane_index) { return random.between(1, 20'000); };
  for (lane_index lane = 0; lane < 4; ++lane) link.wait_with(lane, 1);
  for (int i = 0; i < 10'000; ++i) {
    link.fill();
    link.end_one();
  }
  CHECK(link.most_bytes() < window.shared_bytes + window.reserve_bytes + 20'000);
  CHECK(link.most_bytes() >= window.shared_bytes);
}

TEST_CASE("KV that has filled the window is passed by a collective, which takes from the reserve") {
  fifo_link link{link_pacer{arbiter_tables{}, {100'000, 30'000}}, 4};
  link.refill = [](lane_index lane) -> std::uint64_t { return lane == 2 ? 10'000 : 0; };
  link.wait_with(2, 10'000);
  CHECK(link.fill() == std::vector<lane_index>(10, 2));
  link.wait_with(1, 64);
  CHECK(link.fill() == std::vector<lane_index>{1});
  CHECK(link.fill().empty());
  link.end_one();
  CHECK(link.fill() == std::vector<lane_index>{2});
}

TEST_CASE("while collectives are silent KV has a wider window, and the first collective still goes at once") {
  pacing_window window{100'000, 30'000, 400'000, std::chrono::milliseconds{10}};
  fifo_link link{link_pacer{{{{1, 192}}, {{2, 64}}, 1}, window}, 3};
  link.refill = [](lane_index lane) -> std::uint64_t { return lane == 2 ? 10'000 : 0; };
  link.wait_with(2, 10'000);
  CHECK(link.fill().size() == 10);
  link.now += window.quiet_after;
  CHECK(link.fill().size() == 30);
  link.wait_with(1, 10'000);
  CHECK(link.fill() == std::vector<lane_index>{1});
  // KV waits until the link is down to the narrow window again, however much the collective sends.
  link.refill = [](lane_index) -> std::uint64_t { return 10'000; };
  link.wait_with(1, 10'000);
  bool narrow = false;
  for (int i = 0; i < 60; ++i) {
    auto begun = link.fill();
    narrow = narrow || std::count(begun.begin(), begun.end(), 2) != 0;
    link.end_one();
  }
  CHECK(narrow);
  CHECK(link.under_way_bytes() < window.shared_bytes + window.reserve_bytes + 10'000);
}

TEST_CASE("collectives that come again within the time of silence keep the window narrow") {
  pacing_window window{100'000, 30'000, 400'000, std::chrono::milliseconds{10}};
  fifo_link link{link_pacer{{{{1, 192}}, {{2, 64}}, 240}, window}, 3};
  link.refill = [](lane_index lane) -> std::uint64_t { return lane == 2 ? 10'000 : 0; };
  link.wait_with(2, 10'000);
  for (int i = 0; i < 100; ++i) {
    link.now += window.quiet_after / 2;
    link.wait_with(1, 64);
    link.fill();
    link.end_one();
  }
  CHECK(link.most_bytes() < window.shared_bytes + window.reserve_bytes + 10'000);
}

TEST_CASE("a message larger than the window is sent once nothing else is under way") {
  fifo_link link{link_pacer{arbiter_tables{}, {1000, 0}}, 4};
  link.wait_with(2, 1'000'000);
  CHECK(link.fill() == std::vector<lane_index>{2});
  link.wait_with(1, 64);
  CHECK(link.fill().empty());
  link.end_one();
  CHECK(link.fill() == std::vector<lane_index>{1});
}

TEST_CASE("a lane whose turn comes while the window is full is not passed again") {
  // After 4096 bytes of lane 1, lane 2 has its turn; what lane 1 keeps under way must not put it off for
  // ever.
  arbiter_tables tables{{{1, 255}}, {{2, 255}}, 1};
  fifo_link link{link_pacer{tables, {8192, 1 << 20}}, 3};
  link.refill = [](lane_index) -> std::uint64_t { return 4096; };
  link.wait_with(1, 4096);
  link.wait_with(2, 4096);
  for (int i = 0; i < 1000; ++i) {
    link.fill();
    link.end_one();
  }
  CHECK(static_cast<double>(link.sent(2)) / static_cast<double>(link.sent(1)) == Approx(1).margin(0.02));
}

TEST_CASE("a table is read as opensm writes it, and an entry that is none is named") {
  auto table = parse_arbiter_table("0:192,1:192,2:0,3:192");
  REQUIRE(table);
  CHECK(table->size() == 4);
  CHECK((*table)[3].lane == 3);
  CHECK((*table)[2].weight == 0);
  for (auto bad : {"", "1", "1:", ":1", "1:256", "-1:2", "1:2,", "1:2 ", "1:2,x:3"}) {
    auto read = parse_arbiter_table(bad);
    REQUIRE_FALSE(read);
    CHECK(read.error().text.find("LANE:WEIGHT") != std::string::npos);
  }
}

#include "core/engine_table.hpp"

#include "core/policy/decode_choice.hpp"
#include "core/policy/prefill_choice.hpp"

#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

using namespace dualpath::core;

namespace {

/// The same by looking at everything, every time.
struct plain_table {
  struct entry {
    node_id node;
    engine_role role = engine_role::prefill;
    bool live = false, retired = false;
    std::uint64_t requests = 0, tokens = 0, hbm_tokens = 0;
  };
  std::map<engine_id, entry> engines;
  std::map<node_id, std::uint64_t> waiting;

  std::vector<engine_load> loads_of(node_id node, engine_role role, std::uint64_t read_queue_tokens) const {
    std::vector<engine_load> loads;
    for (auto& [id, e] : engines)
      if (e.live && e.node == node && e.role == role)
        loads.push_back(
            {id, e.requests, e.tokens, read_queue_tokens, e.hbm_tokens - std::min(e.hbm_tokens, e.tokens)});
    return loads;
  }
  std::map<node_id, std::uint64_t> group_tokens() const {
    std::map<node_id, std::uint64_t> sums;
    for (bool only_live : {true, false}) {
      for (auto& [id, e] : engines)
        if (e.role == engine_role::decode && (e.live || (!only_live && !e.retired))) sums[e.node] += e.tokens;
      if (!sums.empty()) break;
    }
    for (auto& [node, sum] : sums)
      if (auto place = waiting.find(node); place != waiting.end()) sum += place->second;
    return sums;
  }
};

bool same(const engine_load& a, const engine_load& b) {
  return a.engine == b.engine && a.unfinished_requests == b.unfinished_requests
         && a.unfinished_tokens == b.unfinished_tokens && a.read_queue_tokens == b.read_queue_tokens
         && a.free_hbm_tokens == b.free_hbm_tokens;
}

constexpr std::uint32_t nodes = 5, engines_per_node = 3;
constexpr engine_role role_of(std::uint32_t node) {
  return node < 2 ? engine_role::prefill : engine_role::decode;
}

void compare(const engine_table& table, const plain_table& plain) {
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (auto role : {engine_role::prefill, engine_role::decode}) {
      auto loads = table.loads_of(node_id{n}, role, n * 7);
      auto expected = plain.loads_of(node_id{n}, role, n * 7);
      REQUIRE(std::equal(loads.begin(), loads.end(), expected.begin(), expected.end(), same));
      REQUIRE(table.has_live(node_id{n}, role) == !expected.empty());
    }
  std::map<node_id, std::uint64_t> sums;
  for (std::size_t i = 0; i < table.decode_groups().size(); ++i)
    sums[table.decode_groups()[i]] = table.decode_group_tokens()[i];
  REQUIRE(std::is_sorted(table.decode_groups().begin(), table.decode_groups().end()));
  REQUIRE(sums == plain.group_tokens());
}

/// Does the same to both tables.
struct twins {
  struct amount {
    engine_id engine;
    std::uint64_t tokens;
  };
  engine_table table;
  plain_table plain;
  std::vector<amount> charges, waits;

  void up(engine_id id, std::uint64_t hbm_tokens) {
    node_id node{id.value / engines_per_node};
    table.up(id, node, role_of(node.value), hbm_tokens);
    auto& e = plain.engines[id];
    e = {node, role_of(node.value), true, false, e.requests, e.tokens, hbm_tokens};
  }
  void down(engine_id id) {
    table.down(id);
    if (auto place = plain.engines.find(id); place != plain.engines.end()) place->second.live = false;
  }
  void retire(engine_id id) {
    table.retire(id);
    if (auto place = plain.engines.find(id); place != plain.engines.end()) {
      place->second.live = false;
      place->second.retired = true;
    }
  }
  void charge(engine_id id, std::uint64_t tokens) {
    if (!plain.engines.count(id)) return;
    table.charge(id, tokens);
    plain.engines[id].requests += 1;
    plain.engines[id].tokens += tokens;
    charges.push_back({id, tokens});
  }
  void release(std::size_t which) {
    auto [id, tokens] = charges[which];
    table.release(id, tokens);
    plain.engines[id].requests -= 1;
    plain.engines[id].tokens -= tokens;
    charges.erase(charges.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void wait(engine_id id, std::uint64_t tokens) {
    node_id node{id.value / engines_per_node};
    if (role_of(node.value) != engine_role::decode) return;
    table.add_waiting(node, tokens);
    plain.waiting[node] += tokens;
    waits.push_back({id, tokens});
  }
  void leave(std::size_t which) {
    auto [id, tokens] = waits[which];
    node_id node{id.value / engines_per_node};
    table.remove_waiting(node, tokens);
    plain.waiting[node] -= tokens;
    waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(which));
  }
};

} // namespace

TEST_CASE("indices and sums stay what a look at every engine gives, whatever comes, goes and is charged",
          "[engine_table]") {
  DUALPATH_RANDOM(random);
  auto below = [&](std::uint64_t count) { return random.between(0, count - 1); };
  twins both;
  for (int step = 0; step < 4000; ++step) {
    engine_id id{static_cast<std::uint32_t>(below(nodes * engines_per_node))};
    auto tokens = 1 + below(1000);
    switch (below(8)) {
    case 0:
      both.up(id, 20000 + below(20000));
      break;
    case 1:
      both.down(id);
      break;
    case 7:
      both.retire(id);
      break;
    case 2:
    case 3:
      both.charge(id, tokens);
      break;
    case 4:
      if (!both.charges.empty()) both.release(below(both.charges.size()));
      break;
    case 5:
      both.wait(id, tokens);
      break;
    case 6:
      if (!both.waits.empty()) both.leave(below(both.waits.size()));
      break;
    }
    compare(both.table, both.plain);
  }
}

TEST_CASE(
    "a group whose engines are all down takes nothing while another lives, and what it can where none does",
    "[engine_table]") {
  engine_table table;
  table.up(engine_id{0}, node_id{0}, engine_role::decode, 100);
  table.up(engine_id{1}, node_id{1}, engine_role::decode, 200);
  table.charge(engine_id{1}, 50);
  table.down(engine_id{0});
  REQUIRE(table.decode_groups().size() == 1);
  CHECK(table.decode_groups()[0] == node_id{1});
  CHECK(table.decode_group_tokens()[0] == 50);
  CHECK(table.live_count() == 1);
  CHECK(table.most_hbm_tokens(node_id{0}) == 100);
  table.down(engine_id{1});
  REQUIRE(table.decode_groups().size() == 2);
  CHECK(table.decode_group_tokens()[choose_decode_group(table.decode_group_tokens())] == 0);
  CHECK(table.live_count() == 0);
}

TEST_CASE("requests given to the prefill policy one at a time go where they go together", "[engine_table]") {
  DUALPATH_RANDOM(random);
  auto below = [&](std::uint64_t count) { return random.between(0, count - 1); };
  for (int round = 0; round < 300; ++round) {
    std::vector<engine_load> group;
    for (std::uint32_t e = 0; e < 1 + below(8); ++e)
      group.push_back({engine_id{e}, 0, below(3000), below(200), 0});
    std::vector<waiting_request> fifo;
    for (std::uint64_t n = 0; n < below(40); ++n) fifo.push_back({request_id{n}, 1 + below(900)});
    prefill_thresholds thresholds{100, 2000};
    auto together = choose_prefill(fifo, group, thresholds);
    std::vector<assignment> apart;
    for (const auto& head : fifo) {
      auto chosen = choose_prefill({&head, 1}, group, thresholds);
      if (chosen.empty()) break;
      apart.push_back(chosen.front());
      group[chosen.front().engine.value].unfinished_tokens += head.tokens;
    }
    REQUIRE(apart == together);
  }
}

TEST_CASE("the decode policy needs no more of a queue than fits the group's free HBM", "[engine_table]") {
  DUALPATH_RANDOM(random);
  auto below = [&](std::uint64_t count) { return random.between(0, count - 1); };
  for (int round = 0; round < 300; ++round) {
    std::vector<engine_load> group;
    std::uint64_t free_tokens = 0;
    for (std::uint32_t e = 0; e < 1 + below(8); ++e) {
      group.push_back({engine_id{e}, below(10), below(3000), 0, below(3000)});
      free_tokens += group.back().free_hbm_tokens;
    }
    std::vector<waiting_request> fifo, prefix;
    bool fits = true;
    for (std::uint64_t n = 0; n < below(40); ++n) {
      fifo.push_back({request_id{n}, 1 + below(900)});
      fits = fits && fifo.back().tokens <= free_tokens;
      if (!fits) continue;
      free_tokens -= fifo.back().tokens;
      prefix.push_back(fifo.back());
    }
    REQUIRE(choose_decode(prefix, group) == choose_decode(fifo, group));
  }
}

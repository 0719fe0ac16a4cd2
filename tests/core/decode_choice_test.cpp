#include "core/policy/decode_choice.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace dualpath::core;

namespace {

engine_load load_of(std::uint32_t id, std::uint64_t requests, std::uint64_t tokens,
                    std::uint64_t free_tokens) {
  return {engine_id{id}, requests, tokens, 0, free_tokens};
}

} // namespace

TEST_CASE("a request goes to the decode group with the fewest unfinished tokens, the first of equals") {
  std::vector<std::uint64_t> groups{7, 3, 9, 3};
  CHECK(choose_decode_group(groups) == 1);
}

TEST_CASE("a decode engine above Z is passed over although it has fewer requests") {
  // Z = 1.05 · (100 + 100) / 2 = 105.
  std::vector<waiting_request> fifo{{request_id{7}, 100}};
  auto chosen = choose_decode(fifo, {load_of(0, 1, 100, 1000), load_of(1, 5, 0, 1000)});
  CHECK(chosen == std::vector<assignment>{{request_id{7}, engine_id{1}}});
}

TEST_CASE("below Z the decode engine with the fewest requests is taken although it has more tokens") {
  // Z = 1.05 · (10 + 1000) / 2 = 530.25.
  std::vector<waiting_request> fifo{{request_id{7}, 10}};
  auto chosen = choose_decode(fifo, {load_of(0, 9, 480, 1000), load_of(1, 2, 520, 1000)});
  CHECK(chosen == std::vector<assignment>{{request_id{7}, engine_id{1}}});
  chosen = choose_decode(fifo, {load_of(0, 9, 479, 1000), load_of(1, 2, 521, 1000)});
  CHECK(chosen == std::vector<assignment>{{request_id{7}, engine_id{0}}});
}

TEST_CASE("where every decode engine would exceed Z the one with the fewest tokens is taken") {
  // The engine with few tokens has no room, Z = 1.05 · (100 + 1000) / 3 = 385.
  std::vector<waiting_request> fifo{{request_id{7}, 100}};
  auto chosen = choose_decode(fifo, {load_of(0, 1, 510, 200), load_of(1, 9, 490, 200), load_of(2, 0, 0, 99)});
  CHECK(chosen == std::vector<assignment>{{request_id{7}, engine_id{1}}});
}

TEST_CASE("a head that fits no decode engine stops the queue, also before smaller requests") {
  std::vector<waiting_request> fifo{{request_id{1}, 150}, {request_id{2}, 10}};
  CHECK(choose_decode(fifo, {load_of(0, 0, 0, 100), load_of(1, 0, 0, 100)}).empty());
  CHECK(choose_decode(fifo, {}).empty());
}

TEST_CASE("decode choice: each head gets an engine with room by the rule of Z, until none has room") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 500; ++round) {
    std::vector<engine_load> engines;
    for (auto n = random.between(1, 6); n > 0; --n)
      engines.push_back(load_of(static_cast<std::uint32_t>(engines.size()), random.between(0, 20),
                                random.between(0, 5000), random.between(0, 4000)));
    std::vector<waiting_request> fifo;
    for (auto n = random.between(0, 30); n > 0; --n)
      fifo.push_back({request_id{fifo.size()}, random.between(1, 1500)});

    double room = 0, planned = 0;
    for (const auto& e : engines) {
      room += static_cast<double>(e.free_hbm_tokens);
      planned += static_cast<double>(e.unfinished_tokens);
    }
    for (const auto& r : fifo) {
      room -= static_cast<double>(r.tokens);
      if (room < 0) break;
      planned += static_cast<double>(r.tokens);
    }
    double z = 1.05 * planned / static_cast<double>(engines.size());

    auto chosen = choose_decode(fifo, engines);
    REQUIRE(chosen.size() <= fifo.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      REQUIRE(chosen[i].request == fifo[i].request);
      auto len = fifo[i].tokens;
      auto below_z = [&](const engine_load& e) {
        return static_cast<double>(e.unfinished_tokens + len) <= z + 1e-6;
      };
      auto& taken = engines.at(chosen[i].engine.value);
      REQUIRE(taken.free_hbm_tokens >= len);
      for (const auto& other : engines) {
        if (other.free_hbm_tokens < len) continue;
        if (below_z(taken) && below_z(other)) REQUIRE(other.unfinished_requests >= taken.unfinished_requests);
        if (!below_z(taken)) {
          REQUIRE_FALSE(below_z(other));
          REQUIRE(other.unfinished_tokens >= taken.unfinished_tokens);
        }
      }
      taken.free_hbm_tokens -= len;
      taken.unfinished_tokens += len;
      taken.unfinished_requests += 1;
    }
    if (chosen.size() < fifo.size())
      REQUIRE(std::all_of(engines.begin(), engines.end(),
                          [&](const auto& e) { return e.free_hbm_tokens < fifo[chosen.size()].tokens; }));
  }
}

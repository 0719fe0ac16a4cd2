#include "core/policy/prefill_choice.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace dualpath::core;

namespace {

engine_load load_of(std::uint32_t id, std::uint64_t tokens, std::uint64_t read_queue) {
  return {engine_id{id}, 0, tokens, read_queue, 0};
}

std::vector<waiting_request> requests(const std::vector<std::uint64_t>& tokens) {
  std::vector<waiting_request> fifo;
  for (auto t : tokens) fifo.push_back({request_id{fifo.size()}, t});
  return fifo;
}

/// 0: overloaded, 1: second choice, 2: first choice.
int class_of(const engine_load& e, const prefill_thresholds& t) {
  if (e.unfinished_tokens > t.overload_tokens) return 0;
  return e.read_queue_tokens <= t.short_queue_tokens ? 2 : 1;
}

} // namespace

TEST_CASE("a prefill engine with a short read queue goes before one with less work") {
  auto chosen = choose_prefill(requests({10}), {load_of(1, 0, 501), load_of(2, 900, 500)}, {500, 1000});
  CHECK(chosen == std::vector<assignment>{{request_id{0}, engine_id{2}}});
}

TEST_CASE(
    "among short read queues the prefill engine with the fewest unfinished tokens is taken, and again") {
  auto chosen = choose_prefill(requests({100, 100, 100}), {load_of(1, 0, 0), load_of(2, 50, 0)}, {500, 1000});
  CHECK(chosen
        == std::vector<assignment>{
            {request_id{0}, engine_id{1}}, {request_id{1}, engine_id{2}}, {request_id{2}, engine_id{1}}});
}

TEST_CASE("an overloaded prefill engine gets nothing, and the queue waits") {
  CHECK(choose_prefill(requests({1}), {load_of(1, 1001, 0)}, {500, 1000}).empty());
  CHECK(choose_prefill(requests({5000, 1}), {load_of(1, 1000, 0)}, {500, 1000}).size() == 1);
  CHECK(choose_prefill(requests({1}), {}, {500, 1000}).empty());
}

TEST_CASE("prefill choice: every request in order gets the best class and the least work, until all are "
          "overloaded") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 500; ++round) {
    prefill_thresholds thresholds{random.between(0, 2000), random.between(0, 5000)};
    std::vector<engine_load> engines;
    for (auto n = random.between(0, 6); n > 0; --n)
      engines.push_back(load_of(static_cast<std::uint32_t>(engines.size()), random.between(0, 6000),
                                random.between(0, 3000)));
    std::vector<waiting_request> fifo;
    for (auto n = random.between(0, 30); n > 0; --n)
      fifo.push_back({request_id{random.between(0, 1u << 30)}, random.between(1, 1500)});

    auto chosen = choose_prefill(fifo, engines, thresholds);
    REQUIRE(chosen.size() <= fifo.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      REQUIRE(chosen[i].request == fifo[i].request);
      auto& taken = engines.at(chosen[i].engine.value);
      REQUIRE(class_of(taken, thresholds) > 0);
      for (const auto& other : engines) {
        REQUIRE(class_of(other, thresholds) <= class_of(taken, thresholds));
        if (class_of(other, thresholds) == class_of(taken, thresholds))
          REQUIRE(other.unfinished_tokens >= taken.unfinished_tokens);
      }
      taken.unfinished_tokens += fifo[i].tokens;
    }
    if (chosen.size() < fifo.size())
      REQUIRE(std::all_of(engines.begin(), engines.end(),
                          [&](const auto& e) { return class_of(e, thresholds) == 0; }));
  }
}

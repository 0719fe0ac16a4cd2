#include "core/fault_plan.hpp"
#include "core/usage_gauge.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

using namespace dualpath::core;

TEST_CASE("the N-th step of a role crashes, counted over all engines and apart from the other role") {
  auto plan = fault_plan::parse({"crash:prefill:3", "crash:decode:1", "crash:prefill:5"});
  REQUIRE(plan);
  CHECK(plan->pending() == 3);
  CHECK(plan->should_crash(engine_role::decode));
  auto other_engine = *plan;
  std::vector<bool> crashed;
  for (int i = 0; i < 6; ++i)
    crashed.push_back((i % 2 ? *plan : other_engine).should_crash(engine_role::prefill));
  CHECK(crashed == std::vector<bool>{false, false, true, false, true, false});
  CHECK_FALSE(plan->should_crash(engine_role::decode));
  CHECK(plan->pending() == 0);
}

TEST_CASE("a fault that names a node happens in the process of that node alone, by its own count") {
  std::vector<std::string> texts{"error:put:2@1", "late:put:2@3", "crash:decode:1@3", "lost:get:1"};
  REQUIRE(fault_plan::parse(texts));
  auto first = fault_plan::parse_for(texts, node_id{1});
  REQUIRE(first);
  CHECK(first->pending() == 2);
  CHECK(first->next(leg::put) == fault_kind::none);
  CHECK(first->next(leg::put) == fault_kind::error);
  CHECK(first->next(leg::get) == fault_kind::lost);
  CHECK_FALSE(first->should_crash(engine_role::decode));
  CHECK(first->pending() == 0);
  auto third = fault_plan::parse_for(texts, node_id{3});
  REQUIRE(third);
  CHECK(third->should_crash(engine_role::decode));
  CHECK(third->next(leg::put) == fault_kind::none);
  CHECK(third->next(leg::put) == fault_kind::late);
  CHECK(fault_plan::parse_for(texts, node_id{0})->pending() == 1);
  CHECK(fault_plan::named_node("error:put:2@1") == node_id{1});
  CHECK_FALSE(fault_plan::named_node("error:put:2"));
}

TEST_CASE("faults that name nodes are checked before any node reads them") {
  for (const char* text : {"error:put:2@", "error:put:2@x", "error:put@1", "error:put:2@-1", "@1"})
    CHECK_FALSE(fault_plan::parse({text}));
  CHECK_FALSE(fault_plan::parse({"error:put:2@1", "late:put:2@1"}));
  CHECK_FALSE(fault_plan::parse({"error:put:2", "late:put:2@1"}));
}

TEST_CASE("an empty plan crashes nothing") {
  auto plan = fault_plan::parse({});
  REQUIRE(plan);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(plan->should_crash(engine_role::prefill));
  CHECK(plan->pending() == 0);
  CHECK_FALSE(fault_plan{}.should_crash(engine_role::decode));
}

TEST_CASE("random faults are different steps within the range, the same ones for the same seed") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 100; ++round) {
    auto within = random.between(1, 500), count = random.between(1, within);
    auto text = [&](std::uint64_t seed) {
      return "random:decode:" + std::to_string(count) + ":" + std::to_string(within) + ":"
             + std::to_string(seed);
    };
    auto seed = random.between(0, 1u << 30);
    auto plan = fault_plan::parse({text(seed)});
    REQUIRE(plan);
    REQUIRE(plan->describe() == fault_plan::parse({text(seed)})->describe());
    REQUIRE(plan->describe() == fault_plan::parse(plan->describe())->describe());
    std::uint64_t crashes = 0;
    for (std::uint64_t step = 0; step < within; ++step) crashes += plan->should_crash(engine_role::decode);
    REQUIRE(crashes == count);
    REQUIRE(plan->pending() == 0);
  }
  CHECK(fault_plan::parse({"random:decode:20:100000:1"})->describe()
        != fault_plan::parse({"random:decode:20:100000:2"})->describe());
}

TEST_CASE("every planned fault happens once, however many engines count at the same time") {
  auto plan = fault_plan::parse({"random:prefill:50:40000:7"});
  REQUIRE(plan);
  std::atomic<int> crashes{0};
  std::vector<std::thread> engines;
  for (int e = 0; e < 4; ++e)
    engines.emplace_back([&, own = *plan]() mutable {
      for (int i = 0; i < 10000; ++i) crashes += own.should_crash(engine_role::prefill);
    });
  for (auto& e : engines) e.join();
  CHECK(crashes == 50);
  CHECK(plan->pending() == 0);
}

TEST_CASE("a text that is no fault is refused with the syntax") {
  for (std::string text : {"",
                           "crash",
                           "crash:prefill",
                           "crash:prefill:0",
                           "crash:prefill:-1",
                           "crash:prefill:x",
                           "crash:router:1",
                           "crash:prefill:1:2",
                           "melt:prefill:1",
                           "random:decode:5:4:1",
                           "random:decode:0:4:1",
                           "random:decode:5000:10000:1",
                           "crash:decode:1 ",
                           "error:put:0",
                           "error:wire:1",
                           "error:tokens:1",
                           "late:put",
                           "chaos:0:1",
                           "chaos:1001:1",
                           "chaos:5"}) {
    INFO(text);
    auto plan = fault_plan::parse({"crash:prefill:1", text});
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::invalid_argument);
    CHECK(plan.error().text.find("\"" + text + "\"") != std::string::npos);
  }
  CHECK_FALSE(fault_plan::parse({"crash:decode:4", "crash:decode:4"}));
  CHECK_FALSE(fault_plan::parse({"late:put:4", "error:put:4"}));
  CHECK_FALSE(fault_plan::parse({"chaos:5:1", "chaos:5:2"}));
}

TEST_CASE("the N-th operation of a leg has the fault planned for it, apart from other legs") {
  auto plan = fault_plan::parse({"error:put:2", "late:put:4", "lost:decode-work:1"});
  REQUIRE(plan);
  CHECK(plan->pending() == 3);
  CHECK(plan->touches_devices());
  std::vector<fault_kind> puts;
  for (int i = 0; i < 5; ++i) puts.push_back(plan->next(leg::put));
  using kind = fault_kind;
  CHECK(puts == std::vector{kind::none, kind::error, kind::none, kind::late, kind::none});
  CHECK(plan->next(leg::get) == kind::none);
  CHECK(plan->next(leg::decode_work) == kind::lost);
  CHECK(plan->happened() == 3);
  CHECK(plan->pending() == 0);
  CHECK(plan->describe() == fault_plan::parse(plan->describe())->describe());
  CHECK_FALSE(fault_plan::parse({"lost:tokens:3", "crash:prefill:1"})->touches_devices());
}

TEST_CASE("every leg has a name that a plan understands") {
  for (std::size_t i = 0; i < leg_count; ++i) {
    auto text = "late:" + std::string{to_string(static_cast<leg>(i))} + ":1";
    INFO(text);
    auto plan = fault_plan::parse({text});
    REQUIRE(plan);
    CHECK(plan->next(static_cast<leg>(i)) == fault_kind::late);
  }
}

TEST_CASE("chaos is about as frequent as asked for, and the same for the same seed") {
  DUALPATH_RANDOM(random);
  auto seed = std::to_string(random.between(0, 1u << 30));
  auto plan = fault_plan::parse({"chaos:100:" + seed}), same = fault_plan::parse({"chaos:100:" + seed});
  REQUIRE(plan);
  int faults = 0;
  for (int i = 0; i < 10000; ++i) {
    auto kind = plan->next(leg::put);
    REQUIRE(kind == same->next(leg::put));
    faults += kind != fault_kind::none;
  }
  CHECK(faults > 800);
  CHECK(faults < 1200);
  CHECK(plan->pending() == 0);
}

TEST_CASE("completions that are held end once: at their time, or all of them when told") {
  manual_clock clock;
  held_completions held;
  std::vector<int> ended;
  held.hold(clock, std::chrono::seconds{1}, [&] { ended.push_back(1); });
  held.hold(clock, std::chrono::seconds{5}, [&] { ended.push_back(2); });
  held.hold([&] { ended.push_back(3); });
  clock.advance(std::chrono::seconds{2});
  CHECK(ended == std::vector{1});
  CHECK(held.size() == 2);
  held.end_all();
  CHECK(ended == std::vector{1, 2, 3});
  held.hold([&] { ended.push_back(4); }); // nothing is held any more
  clock.advance(std::chrono::seconds{5});
  CHECK(ended == std::vector{1, 2, 3, 4});
}

TEST_CASE("a gauge is idle when every owner has given back what it held, or is gone") {
  manual_clock clock;
  usage_gauge gauge;
  auto slots = gauge.open(resource::buffer_slots);
  {
    auto leases = gauge.open(resource::leases);
    auto more = gauge.open(resource::buffer_slots);
    slots.set(3);
    more.set(4);
    leases.set(2);
    leases.set(1);
    CHECK(gauge.used() == resource_usage{7, 0, 0, 1});
  }
  CHECK(gauge.used() == resource_usage{3, 0, 0, 0});
  auto moved = std::move(slots);
  CHECK(gauge.used() == resource_usage{3, 0, 0, 0});
  moved.set(0);
  CHECK(gauge.await_idle(clock, std::chrono::seconds{1}) == resource_usage{});
}

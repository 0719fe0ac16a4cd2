#include "core/fault_plan.hpp"
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
  for (std::string text :
       {"", "crash", "crash:prefill", "crash:prefill:0", "crash:prefill:-1", "crash:prefill:x",
        "crash:router:1", "crash:prefill:1:2", "melt:prefill:1", "random:decode:5:4:1", "random:decode:0:4:1",
        "random:decode:5000:10000:1", "crash:decode:1 "}) {
    INFO(text);
    auto plan = fault_plan::parse({"crash:prefill:1", text});
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::invalid_argument);
    CHECK(plan.error().text.find("\"" + text + "\"") != std::string::npos);
  }
  CHECK_FALSE(fault_plan::parse({"crash:decode:4", "crash:decode:4"}));
}

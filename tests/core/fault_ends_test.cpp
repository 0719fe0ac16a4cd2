#include "core/fault_ends.hpp"
#include "core/fault_plan.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;
using sentences = std::vector<std::string>;

TEST_CASE("a fault that happened on its node is not missed", "[fault_ends]") {
  CHECK(missed_faults({"crash:decode:3@2"}, {{node_id{2}, {"crash:decode:3"}, {}}}, {}).empty());
}

TEST_CASE("a fault still to come on any node is missed, each by its name", "[fault_ends]") {
  auto missed = missed_faults({"crash:decode:3@2", "error:put:9@2", "crash:prefill:4@0"},
                              {{node_id{2}, {"crash:decode:3", "error:put:9"}, {"error:put:9"}},
                               {node_id{0}, {"crash:prefill:4"}, {"crash:prefill:4"}}},
                              {});
  CHECK(describe(missed)
        == sentences{
            "2 planned faults never happened: the run was too short (error:put:9@2, crash:prefill:4@0)"});
}

TEST_CASE("a fault of a node that never served did not happen", "[fault_ends]") {
  auto missed = missed_faults({"crash:decode:3@7"}, {{node_id{0}, {}, {}}}, {});
  CHECK(describe(missed)
        == sentences{"1 planned faults never happened: no such node served (crash:decode:3@7)"});
}

TEST_CASE("a fault of a node that ended without a word may have happened", "[fault_ends]") {
  auto missed = missed_faults({"crash:decode:3@1"}, {{node_id{0}, {}, {}}}, {node_id{1}});
  CHECK(describe(missed)
        == sentences{
            "1 planned faults may not have happened: their node ended without a word (crash:decode:3@1)"});
}

TEST_CASE("a fault that a node's own plan replaced did not happen, while that plan counts", "[fault_ends]") {
  auto missed = missed_faults({"crash:decode:3@1", "crash:decode:5@1"},
                              {{node_id{1}, {"crash:decode:5", "error:get:2"}, {"error:get:2"}}}, {});
  CHECK(describe(missed)
        == sentences{"1 planned faults never happened: the run was too short (error:get:2@1)",
                     "1 planned faults never happened: the node has a plan of its own (crash:decode:3@1)"});
}

TEST_CASE("random faults are missed one by one, and a long list is cut", "[fault_ends]") {
  std::string text = "random:decode:9:100:1@1";
  auto plan = fault_plan::parse_for({text}, node_id{1});
  REQUIRE(plan);
  auto all = plan->describe();
  REQUIRE(all.size() == 9);
  CHECK(missed_faults({text}, {{node_id{1}, all, {}}}, {}).empty());
  CHECK(missed_faults({text}, {{node_id{1}, all, all}}, {}).size() == 9);
  auto said = describe(missed_faults({text}, {}, {}));
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Catch::StartsWith("9 planned faults never happened"));
  CHECK_THAT(said[0], Catch::EndsWith(" and 4 more)"));
}

TEST_CASE("of a plan those faults are pending that it has not come to", "[fault_ends]") {
  auto plan = fault_plan::parse({"crash:decode:1", "crash:decode:3", "lost:tokens:2", "chaos:1:1"});
  REQUIRE(plan);
  plan->should_crash(engine_role::decode);
  plan->next(leg::tokens);
  CHECK(plan->pending_faults() == sentences{"crash:decode:3", "lost:tokens:2"});
  CHECK(plan->pending() == 2);
}

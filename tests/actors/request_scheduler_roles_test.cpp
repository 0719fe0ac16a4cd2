// A role that no node has any more: what the scheduler tells its clients, and when it gives up.
#include "scheduled_cluster.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::actors;
using cluster = dualpath::actors::testing::scheduled_cluster;

namespace {

constexpr core::duration patience = std::chrono::seconds{60};

/// Engines 0 and 2 serve a request that is in prefill; nodes may join later.
struct losing_cluster : cluster {
  explicit losing_cluster(core::duration patience) {
    settings->deadline = std::chrono::hours{1}; // no stocktaking
    settings->role_patience = patience;
    settings->join_address = "head:7070";
    start();
    up(0);
    up(2);
    submit(1);
    work = work_of(0).value();
  }
  void lose(std::uint32_t node) {
    client.send(scheduler, proto::node_lost{core::node_id{node}, "node " + std::to_string(node) + " burnt"});
    run();
    // Whoever is left lets go of what it had with the lost one.
    for (auto& engine : engines)
      if (auto order = engine->next<proto::abandon>())
        client.send(scheduler, proto::abandoned{order->request, order->epoch, {}, {}});
    run();
  }
  /// The last that the client was told in a while.
  std::optional<proto::nodes_awaited> told() {
    std::optional<proto::nodes_awaited> last;
    while (auto news = client.next<proto::nodes_awaited>()) last = std::move(news);
    return last;
  }

  proto::request work;
};

} // namespace

TEST_CASE("requests wait for a role that was lost, which their client is told again and again",
          "[request_scheduler]") {
  auto victim = GENERATE(0u, 2u);
  INFO("node " << victim << " is lost");
  losing_cluster c{patience};
  CHECK_FALSE(c.told());
  c.lose(victim);
  for (int second = 0; second < 55; ++second) {
    c.advance(std::chrono::seconds{1});
    auto news = c.told();
    REQUIRE(news);
    CHECK_FALSE(news->given_up);
  }
}

TEST_CASE("a newcomer of the role in time serves what has waited, and nothing is given up",
          "[request_scheduler]") {
  auto victim = GENERATE(0u, 2u);
  INFO("node " << victim << " is lost");
  losing_cluster c{patience};
  c.lose(victim);
  c.advance(std::chrono::seconds{50});
  c.told();
  c.up(victim + 1);
  auto prefill = victim == 0 ? 1u : 0u;
  auto again = c.work_of(prefill);
  REQUIRE(again);
  CHECK(again->id == c.work.id);
  CHECK(again->epoch > c.work.epoch);
  c.advance(std::chrono::seconds{120});
  CHECK_FALSE(c.told());
}

TEST_CASE("when nobody joins in time the client is told which role, who was lost, and what is unfinished",
          "[request_scheduler]") {
  losing_cluster c{patience};
  c.submit(2);
  c.lose(2);
  c.advance(std::chrono::seconds{59});
  CHECK_FALSE(c.told()->given_up);
  c.advance(std::chrono::seconds{3});
  auto last = c.told();
  REQUIRE(last);
  CHECK(last->given_up);
  CHECK(last->why
        == "no decode node is left, and none has joined within 60.0 s (--wait-for-role): node 2 burnt; "
           "2 requests are unfinished");
}

TEST_CASE("of nodes that were lost one after another all are named", "[request_scheduler]") {
  losing_cluster c{patience};
  c.up(3);
  c.lose(2);
  CHECK_FALSE(c.told()); // the other decode node is left
  c.lose(3);
  c.advance(std::chrono::seconds{62});
  auto last = c.told();
  REQUIRE(last);
  CHECK_THAT(last->why, Catch::Contains("node 2 burnt; node 3 burnt"));
}

TEST_CASE("where nobody can join, a lost role ends the run at once", "[request_scheduler]") {
  losing_cluster c{core::duration{0}};
  c.settings->join_address.clear();
  c.lose(2);
  auto last = c.told();
  REQUIRE(last);
  CHECK(last->given_up);
  CHECK_THAT(last->why, Catch::Contains("none can join what a launcher has started"));
}

TEST_CASE("a role is not lost with an engine that crashed, nor while nobody asks for it",
          "[request_scheduler]") {
  losing_cluster c{patience};
  SECTION("a crash") { c.down(2); }
  SECTION("an idle cluster") {
    c.from(0, proto::handed_over{c.work.id, c.work.epoch});
    c.from(2, proto::request_finished{c.work.id, core::decode_epoch(c.work.epoch)});
    c.lose(2);
  }
  c.advance(std::chrono::seconds{200});
  CHECK_FALSE(c.told());
}

TEST_CASE("requests in decode do not wait for a lost prefill node", "[request_scheduler]") {
  losing_cluster c{patience};
  c.from(0, proto::handed_over{c.work.id, c.work.epoch});
  c.lose(0);
  c.advance(std::chrono::seconds{200});
  CHECK_FALSE(c.told());
  c.submit(2);
  c.advance(std::chrono::seconds{2});
  CHECK(c.told());
}

TEST_CASE("a node that drains counts as gone when the last other one of its role is lost",
          "[request_scheduler]") {
  losing_cluster c{patience};
  c.up(3);
  c.client.send(c.scheduler, proto::drain_node{core::node_id{3}});
  c.run();
  c.lose(2);
  CHECK(c.told());
}

#include "apps/lane_separation.hpp"

#include "apps/bench_arbiter.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

core::port_report fitting_port() {
  core::port_report port;
  port.device = "mlx5_0";
  port.link = core::link_kind::infiniband;
  port.active = true;
  port.virtual_lanes = 4;
  port.active_mtu_bytes = port.most_mtu_bytes = 4096;
  return port;
}

core::result<core::qos_config> qos_of(std::map<std::string, std::vector<std::string>> given) {
  raw_run_options raw;
  raw.given = std::move(given);
  return resolve_qos(raw);
}

} // namespace

TEST_CASE("lanes are paced by default unless everything goes over RDMA ports that fit the classes") {
  core::qos_config qos;
  std::vector<core::port_report> fit{fitting_port()}, none;
  auto narrow = fit;
  narrow[0].virtual_lanes = 1;
  auto by_default = [&](const char* transports, const std::vector<core::port_report>& ports) {
    return paces_lanes(pacing_mode::automatic, transports, qos, ports);
  };
  CHECK_FALSE(by_default("rc_v", fit));
  CHECK_FALSE(by_default("self,rc_x,ud_v", fit));
  CHECK(by_default("rc_v", narrow));
  CHECK(by_default("rc_v", none));
  CHECK(by_default("", fit)); // UCX may choose memory
  CHECK(by_default("rc_v,tcp", fit));
  CHECK(by_default("posix,cma,self,tcp", none));
  CHECK(by_default("self", fit));
  CHECK(paces_lanes(pacing_mode::on, "rc_v", qos, fit));
  CHECK_FALSE(paces_lanes(pacing_mode::off, "tcp", qos, none));
}

TEST_CASE("arbiter tables are given as opensm has them, for a run and for the settings of hardware alike") {
  auto plain = qos_of({});
  REQUIRE(plain);
  CHECK(core::opensm_options(*plain) == core::opensm_options(core::qos_config{}));
  auto changed = qos_of({{"qos-vlarb-high", {"0:10,1:20,3:30"}}, {"qos-high-limit", {"7"}}});
  REQUIRE(changed);
  CHECK(changed->tables.high.size() == 3);
  CHECK(changed->tables.high[1].weight == 20);
  CHECK(changed->tables.high_limit == 7);

  raw_run_options run;
  run.given = {{"trace", {"synthetic:32K"}}, {"pacing", {"off"}}, {"qos-vlarb-low", {"0:1,1:1,2:9,3:1"}}};
  auto options = resolve(run);
  REQUIRE(options);
  CHECK(options->pacing == pacing_mode::off);
  CHECK(options->qos.tables.low[2].weight == 9);

  auto error_of = [](std::map<std::string, std::vector<std::string>> given) {
    auto read = qos_of(std::move(given));
    return read ? std::string{} : read.error().text;
  };
  CHECK(error_of({{"qos-vlarb-low", {"0:192,1:192,3:192"}}}).find("Lane 2 has a weight in neither") == 0);
  CHECK(error_of({{"qos-vlarb-low", {"2-64"}}}).find("--qos-vlarb-low: '2-64' is not an entry") == 0);
  CHECK(error_of({{"qos-high-limit", {"256"}}}).find("from 0 to 255") != std::string::npos);
  CHECK(error_of({{"pacing", {"maybe"}}}).find("choose auto, on or off") != std::string::npos);
}

TEST_CASE("the bench of the arbiter finds its shares within 2 points of the tables for every mix") {
  core::steady_clock clock;
  core::qos_config even;
  even.tables.high = {{0, 100}, {1, 100}, {2, 50}, {3, 50}};
  for (auto& qos : {core::qos_config{}, even})
    for (auto& row : measure_arbiter(qos, 300'000, clock, 1)) {
      INFO(row.mix);
      CHECK(row.picks_per_s > 0);
      CHECK(row.shares.size() == 4);
      CHECK(row.worst_error < 0.02);
    }
}

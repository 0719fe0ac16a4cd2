#include "core/policy/qos.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>

using namespace dualpath::core;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool has_line(const std::string& text, const std::string& line) {
  auto lines = lines_of(text);
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

port_report fitting(link_kind link) {
  port_report port;
  port.device = "mlx5_0";
  port.link = link;
  port.active = true;
  port.virtual_lanes = link == link_kind::infiniband ? 4 : 1;
  port.active_mtu_bytes = port.most_mtu_bytes = 4096;
  port.has_roce_v2 = link == link_kind::ethernet;
  return port;
}

} // namespace

TEST_CASE("the settings for opensm are those of the paper, and put each class into its virtual lane") {
  qos_config config;
  REQUIRE(check_qos(config));
  auto text = opensm_options(config);
  CHECK(has_line(text, "qos TRUE"));
  CHECK(has_line(text, "qos_max_vls 4"));
  CHECK(has_line(text, "qos_high_limit 240"));
  CHECK(has_line(text, "qos_vlarb_high 0:192,1:192,2:0,3:192"));
  CHECK(has_line(text, "qos_vlarb_low 0:192,1:192,2:64,3:192"));
  CHECK(has_line(text, "qos_sl2vl 0,1,2,3,0,0,0,0,0,0,0,0,0,0,0,0"));
  const auto* kv = find_class(config, "kv");
  REQUIRE(kv);
  CHECK(kv->lane == 2);
  CHECK_FALSE(find_class(config, "no such class"));
}

TEST_CASE("service levels that differ from the lanes are mapped onto them") {
  qos_config config;
  config.classes[1].service_level = 5;
  config.classes[2].service_level = 1;
  REQUIRE(check_qos(config));
  CHECK(has_line(opensm_options(config), "qos_sl2vl 0,2,0,3,0,1,0,0,0,0,0,0,0,0,0,0"));
}

TEST_CASE("KV is sure of a share that is small but never nothing, unless the high table may go on for ever") {
  qos_config config;
  auto shares = sure_shares(config);
  REQUIRE(shares.size() == 4);
  CHECK(std::accumulate(shares.begin(), shares.end(), 0.0) == Approx(1));
  CHECK(shares[2] == Approx(64.0 / 640 / 241));
  CHECK(shares[1] == Approx(240.0 / 241 / 3 + 192.0 / 640 / 241));
  config.tables.high_limit = 255;
  CHECK(sure_shares(config)[2] == 0);
  config.tables.high_limit = 0;
  CHECK(sure_shares(config)[2] == Approx(0.05));
}

TEST_CASE("the shares of the arbiter are those the settings promise") {
  qos_config config;
  config.tables.high_limit = 3;
  arbiter paced{config.tables};
  std::vector<std::uint64_t> heads(4, 4096), sent(4);
  double all = 0;
  for (int i = 0; i < 100'000; ++i) {
    auto lane = paced.pick(heads);
    REQUIRE(lane);
    sent[*lane] += heads[*lane];
    all += static_cast<double>(heads[*lane]);
  }
  auto shares = sure_shares(config);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    INFO("lane " << i);
    CHECK(static_cast<double>(sent[i]) / all == Approx(shares[i]).epsilon(0.02));
  }
}

TEST_CASE("percentages for Ethernet leave no class without, add up to 100 and follow the shares") {
  CHECK(ets_percents(qos_config{}) == std::vector<unsigned>{33, 33, 1, 33});
  auto seed = dualpath::tests::seed_of_run();
  INFO("DUALPATH_SEED=" << seed);
  dualpath::tests::random_source random{seed};
  for (int round = 0; round < 500; ++round) {
    qos_config config;
    config.classes.clear();
    config.tables = {.high = {}, .low = {}, .high_limit = static_cast<std::uint8_t>(random.between(0, 255))};
    auto count = random.between(1, 8);
    for (std::uint8_t i = 0; i < count; ++i) {
      config.classes.push_back({"c" + std::to_string(i), i, i, static_cast<std::uint8_t>(8 * i)});
      (random.chance(0.5) ? config.tables.high : config.tables.low)
          .push_back({i, static_cast<std::uint8_t>(random.between(1, 255))});
    }
    REQUIRE(check_qos(config));
    auto percents = ets_percents(config);
    auto shares = sure_shares(config);
    CHECK(std::accumulate(percents.begin(), percents.end(), 0U) == 100);
    CHECK(*std::min_element(percents.begin(), percents.end()) >= 1);
    for (std::size_t i = 0; i < count; ++i)
      CHECK(std::abs(percents[i] - 100 * shares[i]) <= static_cast<double>(count));
  }
}

TEST_CASE("the commands for a ConnectX port set trust, priorities, shares and flow control of every class") {
  auto text = roce_commands(qos_config{}, {.interface = "eth2", .rdma_device = "mlx5_1"});
  CHECK(has_line(text, "mlnx_qos -i eth2 --trust dscp"));
  CHECK(has_line(text, "mlnx_qos -i eth2 --dscp2prio set,16,2"));
  CHECK(has_line(text, "mlnx_qos -i eth2 --prio_tc 0,1,2,3,0,0,0,0"));
  CHECK(has_line(
      text, "mlnx_qos -i eth2 --tsa ets,ets,ets,ets,strict,strict,strict,strict --tcbw 33,33,1,33,0,0,0,0"));
  CHECK(has_line(text, "mlnx_qos -i eth2 --pfc 1,1,1,1,0,0,0,0"));
  CHECK(has_line(text, "cma_roce_tos -d mlx5_1 -t 0"));
}

TEST_CASE("the same configuration is written for dcb and for tc") {
  auto dcb =
      roce_commands(qos_config{}, {.interface = "eth2", .rdma_device = "mlx5_1", .tool = dcb_tool::dcb});
  CHECK(has_line(dcb, "dcb app replace dev eth2 dscp-prio 0:0 8:1 16:2 24:3"));
  CHECK(has_line(
      dcb, "dcb ets set dev eth2 willing off prio-tc all:0 0:0 1:1 2:2 3:3 tc-tsa all:strict 0:ets 1:ets "
           "2:ets 3:ets tc-bw all:0 0:33 1:33 2:1 3:33"));
  CHECK(has_line(dcb, "dcb pfc set dev eth2 prio-pfc all:off 0:on 1:on 2:on 3:on"));
  auto tc = roce_commands(qos_config{}, {.interface = "eth0", .rdma_device = "rxe0", .tool = dcb_tool::tc});
  CHECK(has_line(
      tc, "tc qdisc replace dev eth0 root handle 1: ets bands 4 quanta 135168 135168 4096 135168 priomap 0 "
          "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"));
  CHECK(has_line(
      tc, "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dsfield 0x40 0xfc flowid 1:3"));
}

TEST_CASE("a lane's UCX settings carry its service level, and on Ethernet its traffic class") {
  qos_config config;
  using settings = std::vector<std::pair<std::string, std::string>>;
  const auto& kv = *find_class(config, "kv");
  CHECK(ucx_settings_of(kv, link_kind::infiniband) == settings{{"IB_SL", "2"}});
  CHECK(ucx_settings_of(kv, link_kind::ethernet) == settings{{"IB_SL", "2"}, {"IB_TRAFFIC_CLASS", "64"}});
}

TEST_CASE("classes that hardware could not tell apart are refused by name") {
  auto refused = [](const std::function<void(qos_config&)>& change, const char* part) {
    qos_config config;
    change(config);
    auto checked = check_qos(config);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == errc::invalid_argument);
    CHECK_THAT(checked.error().text, Catch::Contains(part));
  };
  refused([](auto& c) { c.classes[2].service_level = 1; }, "kv has service level 1");
  refused([](auto& c) { c.classes[2].service_level = 16; }, "kv has service level 16");
  refused([](auto& c) { c.classes[3].dscp = 8; }, "control has DSCP 8");
  refused([](auto& c) { c.classes[3].dscp = 64; }, "control has DSCP 64");
  refused([](auto& c) { std::swap(c.classes[1], c.classes[2]); }, "kv has lane 2");
  refused([](auto& c) { c.classes.clear(); }, "0 traffic classes");
  refused([](auto& c) { c.classes.pop_back(); }, "names lane 3");
  refused([](auto& c) { c.tables.low[2].weight = 0; }, "Lane 2");
}

TEST_CASE("a port that keeps the classes apart has no misfits") {
  CHECK(qos_misfits(qos_config{}, fitting(link_kind::infiniband)).empty());
  CHECK(qos_misfits(qos_config{}, fitting(link_kind::ethernet)).empty());
}

TEST_CASE("each thing that keeps a port from separating the classes is named") {
  auto only = [](link_kind link, const std::function<void(port_report&)>& change, const char* part) {
    auto port = fitting(link);
    change(port);
    auto misfits = qos_misfits(qos_config{}, port);
    REQUIRE(misfits.size() == 1);
    CHECK_THAT(misfits[0], Catch::Contains("mlx5_0 port 1") && Catch::Contains(part));
  };
  only(
      link_kind::infiniband, [](auto& p) { p.virtual_lanes = 2; }, "2 virtual lanes");
  only(
      link_kind::infiniband, [](auto& p) { p.active = false; }, "not active");
  only(
      link_kind::infiniband, [](auto& p) { p.active_mtu_bytes = 2048; }, "2048 bytes where 4096");
  only(
      link_kind::ethernet, [](auto& p) { p.active_mtu_bytes = 1024; }, "MTU of its interface");
  only(
      link_kind::ethernet, [](auto& p) { p.has_roce_v2 = false; }, "no RoCE v2 address");
  only(
      link_kind::ethernet, [](auto& p) { p.forced_ip_traffic_class = 106; }, "traffic class 106");
}

#include "core/policy/qos.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <set>

namespace dualpath::core {

namespace {

constexpr std::size_t service_levels = 16;
constexpr std::size_t priorities = 8;
constexpr unsigned packet_bytes = 4096; ///< what a unit of the high limit and a turn of the low table mean
constexpr std::uint8_t never_low = 255;

std::string number(std::uint64_t n) { return std::to_string(n); }

std::string joined(std::size_t count, const char* separator,
                   const std::function<std::string(std::size_t)>& item) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i ? separator : "") + item(i);
  return text;
}

/// Adds what the table gives each lane of `turn`, a share of the link.
void add_shares(const std::vector<arbiter_entry>& table, double turn, std::vector<double>& shares) {
  double all = 0;
  for (const auto& e : table) all += e.weight;
  for (const auto& e : table)
    if (all > 0) shares[e.lane] += turn * e.weight / all;
}

bool has_weight(const std::vector<arbiter_entry>& table) {
  return std::any_of(table.begin(), table.end(), [](const arbiter_entry& e) { return e.weight > 0; });
}

std::string class_comment(const qos_config& config) {
  auto shares = sure_shares(config);
  std::string text = "# class       lane  SL  DSCP  traffic class  sure of\n";
  for (const auto& c : config.classes) {
    char line[96];
    std::snprintf(line, sizeof line, "# %-10s  %4u  %2u  %4u  %13u  %6.2f %%\n", c.name.c_str(), c.lane,
                  c.service_level, c.dscp, c.ip_traffic_class(), 100 * shares[c.lane]);
    text += line;
  }
  return text;
}

/// Which variable puts collectives of NCCL, which the fabric does not carry, into their class.
std::string nccl_comment(const qos_config& config, const char* variable, bool by_service_level) {
  const auto* collective = find_class(config, "collective");
  if (!collective) return {};
  auto value = by_service_level ? collective->service_level : collective->ip_traffic_class();
  return std::string{"# Collectives through NCCL: export "} + variable + "=" + number(value) + "\n";
}

std::string mlnx_qos_commands(const qos_config& config, const roce_port& port) {
  auto count = config.classes.size();
  auto percents = ets_percents(config);
  auto start = "mlnx_qos -i " + port.interface + " ";
  std::string text = start + "--trust dscp\n";
  for (const auto& c : config.classes)
    text += start + "--dscp2prio set," + number(c.dscp) + "," + number(c.lane) + "\n";
  // Priorities without a class share the traffic class of the first one.
  text += start + "--prio_tc "
          + joined(priorities, ",", [&](std::size_t p) { return number(p < count ? p : 0); }) + "\n";
  text += start + "--tsa "
          + joined(priorities, ",", [&](std::size_t p) { return p < count ? "ets" : "strict"; }) + " --tcbw "
          + joined(priorities, ",", [&](std::size_t p) { return number(p < count ? percents[p] : 0); })
          + "\n";
  text += start + "--pfc " + joined(priorities, ",", [&](std::size_t p) { return number(p < count ? 1 : 0); })
          + "\n";
  return text;
}

std::string dcb_commands(const qos_config& config, const roce_port& port) {
  auto count = config.classes.size();
  auto percents = ets_percents(config);
  auto each = [&](const char* value) {
    return joined(count, " ", [&](std::size_t p) { return number(p) + ":" + value; });
  };
  return "dcb app replace dev " + port.interface + " dscp-prio "
         + joined(count, " ",
                  [&](std::size_t i) {
                    return number(config.classes[i].dscp) + ":" + number(config.classes[i].lane);
                  })
         + "\ndcb ets set dev " + port.interface + " willing off prio-tc all:0 "
         + joined(count, " ", [](std::size_t p) { return number(p) + ":" + number(p); })
         + " tc-tsa all:strict " + each("ets") + " tc-bw all:0 "
         + joined(count, " ", [&](std::size_t p) { return number(p) + ":" + number(percents[p]); })
         + "\ndcb pfc set dev " + port.interface + " prio-pfc all:off " + each("on") + "\n";
}

std::string tc_commands(const qos_config& config, const roce_port& port) {
  auto count = config.classes.size();
  auto percents = ets_percents(config);
  auto text = "tc qdisc replace dev " + port.interface + " root handle 1: ets bands " + number(count)
              + " quanta "
              + joined(count, " ", [&](std::size_t i) { return number(percents[i] * packet_bytes); })
              + " priomap " + joined(16, " ", [](std::size_t) { return "0"; }) + "\n";
  for (const auto& c : config.classes) {
    char match[64];
    std::snprintf(match, sizeof match, "0x%02x 0xfc flowid 1:%u", c.ip_traffic_class(), c.lane + 1U);
    text += "tc filter add dev " + port.interface + " parent 1: protocol ip prio 1 u32 match ip dsfield "
            + match + "\n";
  }
  return text;
}

} // namespace

result<void> check_qos(const qos_config& config) {
  auto bad = [](std::string text) { return error{errc::invalid_argument, std::move(text)}; };
  if (config.classes.empty() || config.classes.size() > priorities)
    return bad("There are " + number(config.classes.size()) + " traffic classes; Ethernet takes 1 to 8.");
  std::set<std::uint8_t> levels, points;
  for (std::size_t i = 0; i < config.classes.size(); ++i) {
    const auto& c = config.classes[i];
    if (c.lane != i)
      return bad("Traffic class " + c.name + " has lane " + number(c.lane)
                 + "; the classes are numbered in order, so " + number(i) + " was expected.");
    if (c.service_level >= service_levels || !levels.insert(c.service_level).second)
      return bad("Traffic class " + c.name + " has service level " + number(c.service_level)
                 + "; choose one from 0 to 15 that no other class has.");
    if (c.dscp > 63 || !points.insert(c.dscp).second)
      return bad("Traffic class " + c.name + " has DSCP " + number(c.dscp)
                 + "; choose one from 0 to 63 that no other class has.");
  }
  return check_tables(config.tables, config.classes.size());
}

const traffic_class* find_class(const qos_config& config, std::string_view name) {
  auto found = std::find_if(config.classes.begin(), config.classes.end(),
                            [&](const traffic_class& c) { return c.name == name; });
  return found == config.classes.end() ? nullptr : &*found;
}

std::vector<double> sure_shares(const qos_config& config) {
  const auto& tables = config.tables;
  std::vector<double> shares(config.classes.size());
  bool high = has_weight(tables.high), low = has_weight(tables.low);
  // A turn of the high table is its limit, or one packet where the limit is 0; a turn of the low table a
  // packet.
  double packets = std::max<double>(tables.high_limit, 1);
  double high_share = !low || tables.high_limit == never_low ? 1 : packets / (packets + 1);
  if (!high) high_share = 0;
  add_shares(tables.high, high_share, shares);
  add_shares(tables.low, 1 - high_share, shares);
  return shares;
}

std::vector<unsigned> ets_percents(const qos_config& config) {
  auto shares = sure_shares(config);
  // One for each, the rest by share, and what rounding leaves to those that lost most to it.
  auto spread = 100.0 - static_cast<double>(shares.size());
  std::vector<unsigned> percents;
  for (auto share : shares) percents.push_back(1 + static_cast<unsigned>(spread * share));
  auto sum = std::accumulate(percents.begin(), percents.end(), 0U);
  for (; sum < 100; ++sum) {
    auto lost = [&](std::size_t i) { return 1 + spread * shares[i] - percents[i]; };
    std::size_t most = 0;
    for (std::size_t i = 1; i < shares.size(); ++i)
      if (lost(i) > lost(most)) most = i;
    ++percents[most];
  }
  return percents;
}

std::string opensm_options(const qos_config& config) {
  auto lane_of = [&](std::size_t level) {
    for (const auto& c : config.classes)
      if (c.service_level == level) return number(c.lane);
    return std::string{"0"}; // unknown traffic must not use up the share of a class
  };
  return class_comment(config) + nccl_comment(config, "NCCL_IB_SL", true) + "qos TRUE\n"
         + to_opensm_options(config.tables, config.classes.size()) + "qos_sl2vl "
         + joined(service_levels, ",", lane_of) + "\n";
}

std::string roce_commands(const qos_config& config, const roce_port& port) {
  auto text = class_comment(config) + nccl_comment(config, "NCCL_IB_TC", false);
  switch (port.tool) {
  case dcb_tool::dcb:
    return text + dcb_commands(config, port);
  case dcb_tool::tc:
    return text + tc_commands(config, port);
  case dcb_tool::mlnx_qos:
    break;
  }
  text += mlnx_qos_commands(config, port);
  // Connections made by the RDMA connection manager do not choose a class themselves.
  if (const auto* other = find_class(config, "other"))
    text += "cma_roce_mode -d " + port.rdma_device + " -p 1 -m 2\ncma_roce_tos -d " + port.rdma_device
            + " -t " + number(other->ip_traffic_class()) + "\n";
  return text;
}

std::vector<std::pair<std::string, std::string>> ucx_settings_of(const traffic_class& in, link_kind link) {
  if (link == link_kind::infiniband) return {{"IB_SL", number(in.service_level)}};
  return {{"IB_SL", number(in.lane)}, {"IB_TRAFFIC_CLASS", number(in.ip_traffic_class())}};
}

std::vector<std::string> qos_misfits(const qos_config& config, const port_report& port) {
  std::vector<std::string> misfits;
  auto name = port.device + " port " + number(port.port);
  if (!port.active)
    misfits.push_back(name + " is not active; check its cable and that a subnet manager or link is up.");
  if (port.link == link_kind::infiniband && port.virtual_lanes < config.classes.size())
    misfits.push_back(name + " has " + number(port.virtual_lanes) + " virtual lanes, but the classes need "
                      + number(config.classes.size()) + "; collectives and KV would share one.");
  if (port.active_mtu_bytes < std::min(port.most_mtu_bytes, packet_bytes))
    misfits.push_back(name + " sends packets of " + number(port.active_mtu_bytes) + " bytes where "
                      + number(std::min(port.most_mtu_bytes, packet_bytes))
                      + " are possible; raise the MTU of its "
                      + (port.link == link_kind::infiniband ? "partition." : "interface to 4200 or more."));
  if (port.link == link_kind::ethernet && !port.has_roce_v2)
    misfits.push_back(
        name
        + " has no RoCE v2 address, and packets of RoCE v1 carry no DSCP; give its interface an "
          "IP address.");
  if (port.forced_ip_traffic_class != 0)
    misfits.push_back(name + " sends everything with traffic class " + number(port.forced_ip_traffic_class)
                      + ", whatever a lane asks for; write 0 to /sys/class/infiniband/" + port.device + "/tc/"
                      + number(port.port) + "/traffic_class.");
  return misfits;
}

} // namespace dualpath::core

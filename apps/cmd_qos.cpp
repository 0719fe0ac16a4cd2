#include "apps/cmd_qos.hpp"

#include "apps/command.hpp"
#include "apps/options.hpp"
#include "core/policy/qos.hpp"
#include "net/verbs_devices.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <map>
#include <memory>

namespace dualpath::apps {

namespace {

const std::map<std::string, core::dcb_tool> tools{
    {"mlnx_qos", core::dcb_tool::mlnx_qos}, {"dcb", core::dcb_tool::dcb}, {"tc", core::dcb_tool::tc}};

int write_opensm(const raw_run_options& given) {
  auto config = resolve_qos(given);
  if (!config) return report_error(config.error());
  std::fputs(core::opensm_options(*config).c_str(), stdout);
  return exit_ok;
}

struct roce_arguments {
  raw_run_options qos;
  std::string interface, device = "mlx5_0", tool = "mlnx_qos";
};

int write_roce(const roce_arguments& arguments) {
  auto config = resolve_qos(arguments.qos);
  if (!config) return report_error(config.error());
  core::roce_port port{arguments.interface, arguments.device, tools.at(arguments.tool)};
  std::fputs(core::roce_commands(*config, port).c_str(), stdout);
  return exit_ok;
}

void describe(const core::port_report& port) {
  bool ethernet = port.link == core::link_kind::ethernet;
  std::printf("%s port %u: %s, %s, %s, packets of %u of %u bytes, ", port.device.c_str(), port.port,
              ethernet ? "Ethernet" : "InfiniBand", port.active ? "active" : "not active",
              port.rate.empty() ? "rate unknown" : port.rate.c_str(), port.active_mtu_bytes,
              port.most_mtu_bytes);
  if (ethernet)
    std::printf("%s\n", port.has_roce_v2 ? "RoCE v2" : "no RoCE v2 address");
  else
    std::printf("%u virtual lanes\n", port.virtual_lanes);
}

int check(const raw_run_options& given) {
  auto config = resolve_qos(given);
  if (!config) return report_error(config.error());
  auto ports = net::list_verbs_ports();
  if (!ports) return report_error(ports.error());
  if (ports->empty()) {
    std::printf("This machine has no RDMA device; virtual lanes and traffic classes need one.\n");
    return exit_failed;
  }
  int code = exit_ok;
  bool any_ethernet = false;
  for (const auto& port : *ports) {
    describe(port);
    any_ethernet |= port.link == core::link_kind::ethernet;
    for (const auto& misfit : core::qos_misfits(*config, port)) {
      std::printf("  does not fit: %s\n", misfit.c_str());
      code = exit_failed;
    }
  }
  if (code == exit_ok) std::printf("All ports fit the %zu traffic classes.\n", config->classes.size());
  if (any_ethernet)
    std::printf(
        "PFC and ETS of Ethernet ports are not visible here; compare `dcb ets show dev IF` and `dcb pfc show "
        "dev IF` with `dualpath qos roce`.\n");
  return code;
}

} // namespace

void add_qos_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "qos", "Settings of the compute network for the lanes' traffic classes, and whether the devices fit");
  command->require_subcommand(1);

  auto* ib =
      command->add_subcommand("ib", "Options for opensm.conf: virtual lanes, arbiter tables, service levels");
  auto given = std::make_shared<raw_run_options>();
  bind_run_options(*ib, *given, run_command::qos);
  ib->callback([given, &exit_code] { exit_code = write_opensm(*given); });

  auto* roce =
      command->add_subcommand("roce", "Commands that set DSCP, priorities, PFC and ETS of an Ethernet port");
  auto a = std::make_shared<roce_arguments>();
  roce->add_option("interface", a->interface, "Network interface of the port, as in eth2")->required();
  roce->add_option("--device", a->device, "RDMA device of the port")
      ->type_name("NAME")
      ->capture_default_str();
  roce->add_option("--tool", a->tool,
                   "mlnx_qos (ConnectX), dcb (any driver with DCB) or tc (shares only, for Soft-RoCE)")
      ->type_name("NAME")
      ->check(CLI::IsMember(tools))
      ->capture_default_str();
  bind_run_options(*roce, a->qos, run_command::qos);
  roce->callback([a, &exit_code] { exit_code = write_roce(*a); });

  auto* check_command = command->add_subcommand(
      "check", "What the RDMA devices report, and what of it does not fit the classes");
  auto checked = std::make_shared<raw_run_options>();
  bind_run_options(*check_command, *checked, run_command::qos);
  check_command->callback([checked, &exit_code] { exit_code = check(*checked); });
}

} // namespace dualpath::apps

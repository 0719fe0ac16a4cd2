#include "apps/cmd_doctor.hpp"

#include "apps/command.hpp"
#include "apps/node_checks.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct doctor_arguments {
  probe_options probe;
  bool json = false;
};

int doctor(const doctor_arguments& arguments) {
  auto checks = judge_node(probe_node(arguments.probe));
  std::fputs((arguments.json ? checks_json(checks) : format_checks(checks)).c_str(), stdout);
  return is_fit(checks) ? exit_ok : exit_failed;
}

} // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "doctor", "Check what this machine has of what a node needs; exit code 1 where something is missing");
  auto a = std::make_shared<doctor_arguments>();
  command->add_option("--store", a->probe.store, "Block store to check too, as for run")->type_name("DIR");
  command->add_flag("--json", a->json, "Print one JSON object");
  command->callback([a, &exit_code] { exit_code = doctor(*a); });
}

} // namespace dualpath::apps

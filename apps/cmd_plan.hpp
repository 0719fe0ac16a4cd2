// dualpath plan: says before anyone deploys it whether the dual path pays, with numbers (spec §5 and §9).
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand; running it sets `exit_code` (see exit_status).
void add_plan_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

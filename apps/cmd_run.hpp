// dualpath run: replays a trace on one cluster under one policy.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand; running it sets `exit_code` (see exit_status).
void add_run_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

// dualpath compare: replays a trace under several policies and compares time, tokens and load.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand; running it sets `exit_code` (see exit_status).
void add_compare_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

// dualpath doctor: what this machine lacks of what a node needs, and how to get it.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand; running it sets `exit_code` (see exit_status).
void add_doctor_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

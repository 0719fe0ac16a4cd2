// dualpath trace: describes, converts and generates traces.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand; running it sets `exit_code` (see exit_status).
void add_trace_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

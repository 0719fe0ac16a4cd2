// dualpath model: makes and describes models.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand; running it sets `exit_code` (see exit_status).
void add_model_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

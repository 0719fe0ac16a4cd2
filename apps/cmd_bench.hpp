// dualpath bench: measures compute, store and network of this machine.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand; running it sets `exit_code` (see exit_status).
void add_bench_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

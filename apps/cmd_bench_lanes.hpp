// dualpath bench lanes and bench arbiter: whether traffic classes keep what the tables promise them.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommands to `bench`; running one sets `exit_code` (see exit_status).
void add_bench_lanes(CLI::App& bench, int& exit_code);

} // namespace dualpath::apps

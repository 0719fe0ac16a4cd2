// dualpath bench scheduler: requests that one core can schedule in a cluster of any size.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand to `bench`; running it sets `exit_code` (see exit_status).
void add_bench_scheduler(CLI::App& bench, int& exit_code);

} // namespace dualpath::apps

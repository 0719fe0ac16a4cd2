// dualpath bench processes: the fabric between two processes, to be set beside other transfer engines.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand of `bench`; running it sets `exit_code`.
void add_bench_processes(CLI::App& bench, int& exit_code);

} // namespace dualpath::apps

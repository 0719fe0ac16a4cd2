// dualpath bench net: the fabric beside raw UCX on the same transports.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand to `bench`; running it sets `exit_code` (see exit_status).
void add_bench_net(CLI::App& bench, int& exit_code);

} // namespace dualpath::apps

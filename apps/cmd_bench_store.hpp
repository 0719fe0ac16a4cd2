// dualpath bench store: what the block store makes of a folder, beside fio.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand of `bench`; running it sets `exit_code`.
void add_bench_store(CLI::App& bench, int& exit_code);

} // namespace dualpath::apps

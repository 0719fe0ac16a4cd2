// dualpath bench copy: what copies between host and device memory are made with, and what submitting one
// costs.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

/// Adds the subcommand of `bench`; running it sets `exit_code`.
void add_bench_copy(CLI::App& bench, int& exit_code);

} // namespace dualpath::apps

// `dualpath qos`: settings of the compute network for the traffic classes of the lanes, and whether the
// devices fit.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

void add_qos_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

// `dualpath node`: one node of a cluster that others head; `dualpath drain`: takes one out.
#pragma once

namespace CLI {
class App;
}

namespace dualpath::apps {

void add_node_command(CLI::App& app, int& exit_code);
void add_drain_command(CLI::App& app, int& exit_code);

} // namespace dualpath::apps

#include "apps/cluster_options.hpp"

#include <vector>

namespace dualpath::apps {

namespace {

core::error refuse(const std::string& why) { return {core::errc::invalid_argument, why}; }

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Every machine in the table has a node at least, and the cluster starts when all its places are taken: with
/// more machines of a role than it has places for, it would wait for one of the other role for ever.
core::result<void> check_roles(const run_options& options, const std::string& machine,
                               core::engine_role role) {
  std::vector<std::string> named;
  for (auto& [name, its_role] : options.node_roles)
    if (its_role == role && name != machine) named.push_back(name);
  auto prefill = role == core::engine_role::prefill;
  auto places = prefill ? options.cluster.prefill_nodes : options.cluster.decode_nodes;
  auto head_takes = prefill && !options.head_only ? 1u : 0u;
  if (named.size() + head_takes <= places) return {};
  auto what = std::string{core::to_string(role)};
  return refuse("--nodes gives the role " + what + " to " + listed(named) + ", but --cluster "
                + to_string(options.cluster) + " has " + std::to_string(places) + " " + what + " node"
                + (places == 1 ? "" : "s") + (head_takes > 0 ? ", one of which is the head" : ""));
}

} // namespace

core::result<void> check_cluster_options(const run_options& options, const std::string& machine) {
  if (options.head_only && options.listen.empty())
    return refuse(options.cluster.nodes() == 0
                      ? "--cluster 0P0D starts without a node, so nodes must be able to join: add --listen "
                        "HOST:PORT, which mpirun and srun do not need"
                      : "--head-only leaves all engines to nodes that join by hand: add --listen HOST:PORT");
  if (options.cluster.nodes() == 0) return {};
  for (auto role : {core::engine_role::prefill, core::engine_role::decode})
    if (auto fits = check_roles(options, machine, role); !fits) return fits;
  return {};
}

} // namespace dualpath::apps

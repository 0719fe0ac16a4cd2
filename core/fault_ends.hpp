// What became of planned faults, as far as it is known at the end of a run over many processes: each counts
// its own steps and tells at its end which faults it had in its plan and which of them are still to come. A
// run in which some never happened did not test what it was told to.
#pragma once

#include "core/ids.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace dualpath::core {

/// What a process tells of its plan: as fault_plan::describe() has it.
struct told_faults {
  node_id node;
  std::vector<std::string> planned, pending;
};

/// Why a fault did not happen, or may not have.
enum class fault_miss : std::uint8_t {
  not_reached, ///< no engine of its node came that far
  no_node,     ///< no such node served
  replaced,    ///< the node was started with a plan of its own
  untold,      ///< the node ended without a word, perhaps after it
};
inline constexpr fault_miss all_misses[] = {fault_miss::not_reached, fault_miss::no_node,
                                            fault_miss::replaced, fault_miss::untold};

struct missed_fault {
  std::string fault; ///< with its node, as in crash:decode:3@2
  fault_miss why;
};

/// Of `texts`, each of which names a node, and of the plans that nodes had of their own. `silent`: nodes that
/// served and did not tell.
std::vector<missed_fault> missed_faults(const std::vector<std::string>& texts,
                                        const std::vector<told_faults>& told,
                                        const std::set<node_id>& silent);

/// One sentence a reason, with the faults.
std::vector<std::string> describe(const std::vector<missed_fault>& missed);

} // namespace dualpath::core

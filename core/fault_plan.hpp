// Faults planned beforehand, so that a failure is an input that can be repeated: the N-th step of a role,
// counted over the whole cluster, crashes the engine that starts it. Written as text:
//   crash:prefill:N   the prefill engine that starts the N-th layer computation (from 1)
//   crash:decode:N    the decode engine that starts the N-th decode step
//   random:ROLE:COUNT:WITHIN:SEED   COUNT different steps out of the first WITHIN, drawn from SEED
// Thread-safe; copies share the counters. An empty plan is free of cost beyond one atomic addition a step.
#pragma once

#include "core/ids.hpp"
#include "core/result.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dualpath::core {

class fault_plan {
public:
  /// No faults.
  fault_plan();
  /// Fails with invalid_argument on a text that is none of the above, or where two faults name the same step.
  static result<fault_plan> parse(const std::vector<std::string>& texts);

  /// Call at the start of every layer computation (prefill) or step (decode); true exactly once per planned
  /// fault.
  bool should_crash(engine_role role);

  /// Planned faults that have not happened yet; a run that ends with some did not test what it was told to.
  std::size_t pending() const;
  /// The plan with random faults drawn, in the syntax above, sorted.
  std::vector<std::string> describe() const;

private:
  struct role_faults {
    std::vector<std::uint64_t> steps; ///< sorted, from 1
    std::atomic<std::uint64_t> started{0};
  };
  struct shared_state {
    role_faults prefill, decode;
    role_faults& of(engine_role role) { return role == engine_role::prefill ? prefill : decode; }
  };

  std::shared_ptr<shared_state> state_;
};

} // namespace dualpath::core

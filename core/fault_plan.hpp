// Faults planned beforehand, so that a failure is an input that can be repeated. Steps and operations are
// counted over all engines of a process, from 1; where nodes are processes of their own, each counts for
// itself. Written as text:
//   crash:prefill:N   the prefill engine that starts the N-th layer computation
//   crash:decode:N    the decode engine that starts the N-th decode step
//   random:ROLE:COUNT:WITHIN:SEED   COUNT different steps out of the first WITHIN, drawn from SEED
//   error:LEG:N       the N-th operation of that leg fails
//   late:LEG:N        it succeeds, but is heard of only after its deadline
//   lost:LEG:N        it is never heard of
//   chaos:PERMILLE:SEED   each step and operation, with that probability, one of the above, drawn from SEED;
//                     a device never hangs for good
// and, where nodes are processes, with the number of the node behind it, as in error:put:3@2.
// Thread-safe; copies share the counters. An empty plan is free of cost beyond one atomic addition a step.
#pragma once

#include "core/held_completions.hpp"
#include "core/ids.hpp"
#include "core/result.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dualpath::core {

/// What can go wrong on a request's way: operations of devices, then messages between nodes.
enum class leg : std::uint8_t {
  prefill_read, ///< store → PE buffer
  decode_read,  ///< store → DE buffer
  write,        ///< DE buffer → store
  prefill_copy, ///< PE buffer → PE HBM
  decode_copy,  ///< DE buffer ↔ DE HBM
  get,          ///< DE buffer → PE HBM
  put,          ///< PE HBM → DE buffer
  prefill_compute,
  decode_compute,
  prefill_work,
  open_landing,
  landing,
  hits_loaded,
  part_read,
  hits_read,
  decode_work,
  handed_over,
  close_landing,
  tokens,
  round_done,
  request_finished,
  request_failed,
  abandon,
  abandoned,
  interrupted,
};
inline constexpr std::size_t leg_count = 25;
constexpr bool is_message(leg l) { return l >= leg::prefill_work; }
/// As in the texts above, with dashes.
std::string_view to_string(leg l);

enum class fault_kind : std::uint8_t { none, error, late, lost };

class fault_plan {
public:
  /// No faults.
  fault_plan();
  /// The faults for any process. Fails with invalid_argument on a text that is none of the above, on an error
  /// of a message (those are late or lost), or where two faults name the same step of a process.
  static result<fault_plan> parse(const std::vector<std::string>& texts);
  /// Those for the process of a node.
  static result<fault_plan> parse_for(const std::vector<std::string>& texts, node_id node);
  /// The node that a text names, if any.
  static std::optional<node_id> named_node(const std::string& text);

  /// Call at the start of every layer computation (prefill) or step (decode); true exactly once per planned
  /// fault.
  bool should_crash(engine_role role);
  /// Call at the start of every operation of that leg.
  fault_kind next(leg l);

  /// Planned faults that have not happened yet; a run that ends with some did not test what it was told to.
  /// Those of chaos are not planned one by one, and not counted.
  std::size_t pending() const { return pending_faults().size(); }
  /// The same as texts.
  std::vector<std::string> pending_faults() const;
  /// Faults that have happened: crashes, and all.
  std::uint64_t crashed() const { return state_->crashed; }
  std::uint64_t happened() const { return state_->happened; }
  /// Whether any fault concerns devices.
  bool touches_devices() const;
  bool empty() const;
  /// The plan with random faults drawn, in the syntax above, sorted.
  std::vector<std::string> describe() const { return describe(false); }

  /// Where completions wait that a fault made late or lost.
  held_completions& held() { return state_->held; }

private:
  struct role_faults {
    std::vector<std::uint64_t> steps; ///< sorted, from 1
    std::atomic<std::uint64_t> started{0};
  };
  struct leg_fault {
    std::uint64_t operation = 0; ///< from 1
    fault_kind kind = fault_kind::none;
  };
  struct leg_faults {
    std::vector<leg_fault> faults; ///< sorted by operation
    std::atomic<std::uint64_t> started{0};
  };
  struct chaos {
    std::uint64_t permille = 0, seed = 0;
  };
  struct shared_state {
    role_faults prefill, decode;
    std::array<leg_faults, leg_count> legs;
    std::optional<fault_plan::chaos> chaos;
    std::atomic<std::uint64_t> happened{0}, crashed{0};
    held_completions held;
    role_faults& of(engine_role role) { return role == engine_role::prefill ? prefill : decode; }
    leg_faults& of(leg l) { return legs[static_cast<std::size_t>(l)]; }
  };
  struct reader;

  static result<fault_plan> read(const std::vector<std::string>& texts, std::optional<node_id> node);
  result<void> sort_and_check();
  std::vector<std::string> describe(bool only_pending) const;
  fault_kind chaotic(leg l, std::uint64_t operation) const;
  bool chaotic_crash(engine_role role, std::uint64_t step) const;

  std::shared_ptr<shared_state> state_;
};

} // namespace dualpath::core

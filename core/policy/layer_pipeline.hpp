// The order of work in layer-streamed prefill (spec §4): hit KV of a layer is loaded into one of a few
// staging slots, the layer is computed, its KV is stored away and the slot is free again; transfers of one
// layer overlap the computation of another. The caller carries the actions out and reports each completion,
// in whatever order they happen. A plain object, not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace dualpath::core {

class layer_pipeline {
public:
  struct action {
    enum kind : std::uint8_t { load, compute, store };
    kind what = load;
    std::uint32_t layer = 0;
    std::uint32_t slot = 0; ///< layer % slots
    friend bool operator==(const action&, const action&) = default;
  };

  /// `slots` ≥ 1; more slots than layers are not used. Slots 2 are enough to overlap, 3 to overlap loads and
  /// stores.
  layer_pipeline(std::uint32_t layers, std::uint32_t slots);

  /// The actions to begin with; call once.
  std::vector<action> start();
  /// A completion; returns what became possible by it. load(l) waits for stored(l - slots), compute(l) for
  /// loaded(l) and computed(l - 1), store(l) for computed(l). A report of an action that is not under way
  /// changes nothing.
  std::vector<action> loaded(std::uint32_t layer);
  std::vector<action> computed(std::uint32_t layer);
  std::vector<action> stored(std::uint32_t layer);

  /// Every layer is stored.
  bool finished() const { return stored_ == layers_; }
  std::uint32_t layers() const { return layers_; }
  std::uint32_t slots() const { return slots_; }

private:
  enum class state : std::uint8_t { idle, loading, loaded, computing, storing, stored };
  bool advance(std::uint32_t layer, state from, state to);
  void try_load(std::uint32_t layer, std::vector<action>& actions);
  void try_compute(std::uint32_t layer, std::vector<action>& actions);
  action make(action::kind what, std::uint32_t layer) const { return {what, layer, layer % slots_}; }

  std::uint32_t layers_;
  std::uint32_t slots_;
  std::uint32_t stored_ = 0;
  std::vector<state> states_;
};

} // namespace dualpath::core

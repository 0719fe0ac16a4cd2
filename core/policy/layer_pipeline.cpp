#include "core/policy/layer_pipeline.hpp"

#include <algorithm>

namespace dualpath::core {

layer_pipeline::layer_pipeline(std::uint32_t layers, std::uint32_t slots)
    : layers_{layers}, slots_{std::max<std::uint32_t>(slots, 1)}, states_(layers, state::idle) {}

std::vector<layer_pipeline::action> layer_pipeline::start() {
  std::vector<action> actions;
  for (std::uint32_t layer = 0; layer < std::min(layers_, slots_); ++layer) try_load(layer, actions);
  return actions;
}

std::vector<layer_pipeline::action> layer_pipeline::loaded(std::uint32_t layer) {
  std::vector<action> actions;
  if (advance(layer, state::loading, state::loaded)) try_compute(layer, actions);
  return actions;
}

std::vector<layer_pipeline::action> layer_pipeline::computed(std::uint32_t layer) {
  std::vector<action> actions;
  if (!advance(layer, state::computing, state::storing)) return actions;
  // The next computation first: it is what everything waits for.
  try_compute(layer + 1, actions);
  actions.push_back(make(action::store, layer));
  return actions;
}

std::vector<layer_pipeline::action> layer_pipeline::stored(std::uint32_t layer) {
  std::vector<action> actions;
  if (!advance(layer, state::storing, state::stored)) return actions;
  ++stored_;
  if (layers_ - layer > slots_) try_load(layer + slots_, actions);
  return actions;
}

bool layer_pipeline::advance(std::uint32_t layer, state from, state to) {
  if (layer >= layers_ || states_[layer] != from) return false;
  states_[layer] = to;
  return true;
}

void layer_pipeline::try_load(std::uint32_t layer, std::vector<action>& actions) {
  if (advance(layer, state::idle, state::loading)) actions.push_back(make(action::load, layer));
}

void layer_pipeline::try_compute(std::uint32_t layer, std::vector<action>& actions) {
  // States only rise, so a predecessor that is past computing is computed.
  if (layer > 0 && layer < layers_ && states_[layer - 1] <= state::computing) return;
  if (advance(layer, state::loaded, state::computing)) actions.push_back(make(action::compute, layer));
}

} // namespace dualpath::core

#include "core/policy/layer_pipeline.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>
#include <utility>

using namespace dualpath::core;
using action = layer_pipeline::action;

namespace {

/// What happened to each layer, from the actions and completions alone.
struct progress {
  bool load_begun = false, loaded = false, compute_begun = false, computed = false, store_begun = false,
       stored = false;
};

class observer {
public:
  observer(std::uint32_t layers, std::uint32_t slots) : layers_(layers), slots_{slots} {}

  void begin(const std::vector<action>& actions) {
    for (const auto& a : actions) {
      REQUIRE(a.layer < layers_.size());
      REQUIRE(a.slot == a.layer % slots_);
      auto& layer = layers_[a.layer];
      if (a.what == action::load) {
        REQUIRE(may_load(a.layer));
        REQUIRE_FALSE(std::exchange(layer.load_begun, true));
      } else if (a.what == action::compute) {
        REQUIRE(may_compute(a.layer));
        REQUIRE_FALSE(std::exchange(layer.compute_begun, true));
      } else {
        REQUIRE(layer.computed);
        REQUIRE_FALSE(std::exchange(layer.store_begun, true));
      }
      under_way_.push_back(a);
    }
    // Nothing that may begin is left waiting.
    for (std::uint32_t l = 0; l < layers_.size(); ++l) {
      REQUIRE(layers_[l].load_begun == may_load(l));
      REQUIRE(layers_[l].compute_begun == may_compute(l));
      REQUIRE(layers_[l].store_begun == layers_[l].computed);
    }
  }

  /// Completes one action under way and returns it.
  action complete(std::size_t index) {
    auto a = under_way_[index];
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(index));
    auto& layer = layers_[a.layer];
    (a.what == action::load      ? layer.loaded
     : a.what == action::compute ? layer.computed
                                 : layer.stored) = true;
    return a;
  }

  std::size_t under_way() const { return under_way_.size(); }
  bool all_stored() const {
    return std::all_of(layers_.begin(), layers_.end(), [](const progress& l) { return l.stored; });
  }

private:
  bool may_load(std::uint32_t l) const { return l < slots_ || layers_[l - slots_].stored; }
  bool may_compute(std::uint32_t l) const { return layers_[l].loaded && (l == 0 || layers_[l - 1].computed); }

  std::vector<progress> layers_;
  std::uint32_t slots_;
  std::vector<action> under_way_;
};

std::vector<action> report(layer_pipeline& pipeline, const action& a) {
  switch (a.what) {
  case action::load:
    return pipeline.loaded(a.layer);
  case action::compute:
    return pipeline.computed(a.layer);
  case action::store:
    return pipeline.stored(a.layer);
  }
  return {};
}

} // namespace

TEST_CASE("layer pipeline: in any order of completions every layer is loaded, computed and stored once, as "
          "early as "
          "its slot allows") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 1500; ++round) {
    auto layers = static_cast<std::uint32_t>(random.between(1, 12));
    auto slots = static_cast<std::uint32_t>(random.between(1, 14));
    INFO(layers << " layers, " << slots << " slots");
    layer_pipeline pipeline{layers, slots};
    observer seen{layers, slots};
    seen.begin(pipeline.start());
    std::optional<action> old;
    while (seen.under_way() > 0) {
      REQUIRE_FALSE(pipeline.finished());
      // A report that comes twice changes nothing.
      if (old && random.chance(0.3)) REQUIRE(report(pipeline, *old).empty());
      old = seen.complete(random.between(0, seen.under_way() - 1));
      seen.begin(report(pipeline, *old));
    }
    REQUIRE(seen.all_stored());
    REQUIRE(pipeline.finished());
  }
}

TEST_CASE("with two slots the next layer is loaded while one is computed") {
  layer_pipeline pipeline{3, 2};
  CHECK(pipeline.start() == std::vector<action>{{action::load, 0, 0}, {action::load, 1, 1}});
  CHECK(pipeline.loaded(0) == std::vector<action>{{action::compute, 0, 0}});
  CHECK(pipeline.loaded(1).empty());
  CHECK(pipeline.computed(0) == std::vector<action>{{action::compute, 1, 1}, {action::store, 0, 0}});
  CHECK(pipeline.stored(0) == std::vector<action>{{action::load, 2, 0}});
}

TEST_CASE("with one slot layers follow one another") {
  layer_pipeline pipeline{2, 1};
  CHECK(pipeline.start() == std::vector<action>{{action::load, 0, 0}});
  CHECK(pipeline.loaded(0) == std::vector<action>{{action::compute, 0, 0}});
  CHECK(pipeline.computed(0) == std::vector<action>{{action::store, 0, 0}});
  CHECK(pipeline.stored(0) == std::vector<action>{{action::load, 1, 0}});
}

TEST_CASE("a report of an action that was never asked for changes nothing") {
  layer_pipeline pipeline{2, 2};
  CHECK(pipeline.loaded(0).empty());
  pipeline.start();
  CHECK(pipeline.computed(0).empty());
  CHECK(pipeline.stored(1).empty());
  CHECK(pipeline.loaded(99).empty());
  CHECK_FALSE(pipeline.finished());
}

TEST_CASE("a pipeline of no layers is finished") {
  layer_pipeline pipeline{0, 2};
  CHECK(pipeline.start().empty());
  CHECK(pipeline.finished());
}

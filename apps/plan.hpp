// The answer of `dualpath plan`: bounds of spec §5, cache-compute ratios of spec §8, and whether the dual
// path pays, as text for a terminal. Pure.
#pragma once

#include "core/policy/bounds.hpp"
#include "core/policy/cache_compute.hpp"
#include "core/result.hpp"

#include <string>
#include <vector>

namespace dualpath::apps {

/// A model_shape that owns its name.
struct planned_model {
  std::string name;
  core::model_shape shape;
};

struct plan_request {
  core::cluster_shape cluster;
  core::turn_shape turn;
  double gpu_flops = 0;
  std::vector<planned_model> models; ///< one verdict each
};

/// A published model by name in any case, or the folder of a model (its config.json; KV in 16 bits).
core::result<planned_model> find_planned_model(const std::string& name_or_dir);
std::vector<planned_model> all_published_models();

/// "429", "32K" = 32 768; tokens.
core::result<double> parse_tokens(const std::string& text);

core::result<std::string> format_plan(const plan_request& request);

} // namespace dualpath::apps

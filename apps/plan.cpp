#include "apps/plan.hpp"

#include "apps/config_file.hpp"
#include "core/units.hpp"
#include "kernels/model/model_config.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <filesystem>

namespace dualpath::apps {

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

template <class... Args>
std::string text_of(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

core::result<planned_model> read_planned_model(const std::string& dir) {
  auto config = kernels::read_config(dir);
  if (!config) return config.error();
  constexpr double element_bytes = 2;
  planned_model model;
  model.name = std::filesystem::path{dir}.lexically_normal().filename().string();
  model.shape.active_parameters = static_cast<double>(config->active_parameters());
  model.shape.cached_layers = config->layers;
  model.shape.kv_bytes_per_layer_token = 2.0 * config->kv_width() * element_bytes;
  model.shape.attention_flops_per_pair = 4.0 * config->query_width();
  return model;
}

/// The name has to be viewed from where the model now lies.
core::model_shape named_shape(const planned_model& model) {
  auto shape = model.shape;
  shape.name = model.name;
  return shape;
}

std::string bounds_text(const core::cluster_shape& cluster) {
  auto text = text_of("%-16s %12s %12s %8s\n", "all SNICs full", "load", "limit", "used");
  for (const auto& bound : core::bottleneck_bounds(cluster))
    text += text_of("%-16s %12s %12s %6.0f %%%s\n", std::string{bound.name}.c_str(),
                    core::format_rate(bound.load_bytes_per_s).c_str(),
                    core::format_rate(bound.limit_bytes_per_s).c_str(), bound.utilisation() * 100,
                    bound.exceeded() ? "  EXCEEDED" : "");
  auto range = core::allowed_ratios(cluster);
  if (range.lowest <= range.highest)
    text += text_of("P/D from %.3g (below it %s saturate first) to %.3g (above it %s).\n", range.lowest,
                    std::string{range.below}.c_str(), range.highest, std::string{range.above}.c_str());
  auto plan = core::best_read_plan(cluster);
  auto basic = core::best_read_plan(cluster, core::read_sides::prefill);
  return text + core::explain_bounds(cluster) + "\n"
         + text_of("Storage reads: %s on the prefill and %s on the decode side; prefill side alone %s.\n",
                   core::format_rate(plan.prefill_bytes_per_s).c_str(),
                   core::format_rate(plan.decode_bytes_per_s).c_str(),
                   core::format_rate(basic.total_bytes_per_s()).c_str());
}

std::string ratios_text(const std::vector<planned_model>& models, double append_tokens) {
  constexpr double contexts[] = {16384, 32768, 65536};
  std::size_t width = 16;
  for (const auto& model : models) width = std::max(width, model.name.size());
  auto columns = static_cast<int>(width);
  auto text =
      text_of("Cache-compute ratio in GB/PFLOP, %.0f tokens appended to a context of\n", append_tokens)
      + text_of("%-*s %8s %8s %8s\n", columns, "", "16K", "32K", "64K");
  for (const auto& model : models) {
    text += model.name + std::string(width - model.name.size(), ' ');
    for (auto context : contexts)
      text += text_of(" %8.1f", core::cache_compute_ratio(model.shape, context, append_tokens));
    text += "\n";
  }
  return text;
}

} // namespace

core::result<planned_model> find_planned_model(const std::string& name_or_dir) {
  std::vector<std::string> names;
  for (auto& model : all_published_models()) {
    if (lower(model.name) == lower(name_or_dir)) return model;
    names.push_back(lower(model.name));
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(name_or_dir, ignored)) return read_planned_model(name_or_dir);
  auto nearest = nearest_name(lower(name_or_dir), names);
  std::string choices;
  for (const auto& name : names) choices += (choices.empty() ? "" : ", ") + name;
  return core::error{core::errc::invalid_argument,
                     "'" + name_or_dir + "' is neither a folder nor a known model"
                         + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?") + " Known are "
                         + choices + "."};
}

std::vector<planned_model> all_published_models() {
  std::vector<planned_model> models;
  for (const auto& shape : core::published_models()) models.push_back({std::string{shape.name}, shape});
  return models;
}

core::result<double> parse_tokens(const std::string& text) {
  constexpr double most = 1e9;
  double value = 0;
  auto end = text.data() + text.size();
  auto [stop, failure] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (failure == std::errc{} && stop + 1 == end && (*stop == 'K' || *stop == 'k')) {
    value *= 1024;
    ++stop;
  }
  if (failure != std::errc{} || stop != end || !(value >= 1) || value > most)
    return core::error{core::errc::invalid_argument,
                       "'" + text + "' is not a number of tokens from 1; write it like 429 or 32K"};
  return value;
}

core::result<std::string> format_plan(const plan_request& request) {
  const auto& cluster = request.cluster;
  auto sound = core::check_shape(cluster);
  if (!sound) return sound.error();
  auto text = text_of("%uP%uD, %u GPUs a node; CNIC %s a GPU, storage %s and memory %s a node\n\n",
                      cluster.prefill_nodes, cluster.decode_nodes, cluster.gpus_per_node,
                      core::format_rate(cluster.nic_bytes_per_s).c_str(),
                      core::format_rate(cluster.storage_ratio * cluster.nic_bytes_per_s).c_str(),
                      core::format_rate(cluster.memory_bytes_per_s).c_str());
  text += bounds_text(cluster) + "\n" + ratios_text(request.models, request.turn.append_tokens) + "\n";
  text += text_of(
      "Turns of %.0f tokens appended to %.0f, of which %.1f %% are found in the store; %.3g TFLOPS a GPU:\n",
      request.turn.append_tokens, request.turn.context_tokens, request.turn.hit_rate * 100,
      request.gpu_flops / 1e12);
  for (const auto& model : request.models) {
    auto verdict = core::dual_path_pays(named_shape(model), request.turn, cluster, request.gpu_flops);
    text += model.name + ": " + verdict.sentence + "\n";
  }
  return text;
}

} // namespace dualpath::apps

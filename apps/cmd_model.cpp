#include "apps/cmd_model.hpp"

#include "apps/command.hpp"
#include "core/units.hpp"
#include "kernels/model/preset.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct model_arguments {
  std::string preset = "tiny", dir;
  std::uint64_t seed = 0;
};

int create(const model_arguments& arguments) {
  auto preset = kernels::parse_preset(arguments.preset);
  if (!preset)
    return report_error({core::errc::invalid_argument,
                         "--preset: '" + arguments.preset + "' is not a preset; choose tiny or small"});
  auto created = kernels::create_model(*preset, arguments.seed, arguments.dir);
  return created ? exit_ok : report_error(created.error());
}

int show(const model_arguments& arguments) {
  auto model = kernels::load_model(arguments.dir);
  if (!model) return report_error(model.error());
  const auto& weights = **model;
  const auto& config = weights.config;
  std::printf("model        %s (%s)\n", weights.name.c_str(), config.architecture.c_str());
  std::printf("layers       %u of %u, feed-forward %u\n", config.layers, config.hidden, config.intermediate);
  std::printf("heads        %u query, %u KV, of %u\n", config.query_heads, config.kv_heads, config.head_dim);
  std::printf("vocabulary   %u tokens; sequences up to %u\n", config.vocabulary, config.max_tokens);
  std::printf("parameters   %s active a token\n",
              core::format_count(static_cast<double>(config.active_parameters())).c_str());
  for (auto type : {kernels::kv_dtype::f32, kernels::kv_dtype::bf16})
    std::printf("KV %-4s      %s a token, fingerprint %s\n", kernels::to_string(type),
                core::format_bytes(std::uint64_t{weights.token_bytes(type)} * config.layers).c_str(),
                core::to_hex(core::block_key{weights.fingerprint(type).bytes}).c_str());
  return exit_ok;
}

} // namespace

void add_model_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("model", "Make and describe models");
  command->require_subcommand(1);
  auto a = std::make_shared<model_arguments>();

  auto* create_command =
      command->add_subcommand("create", "Write a small model with random weights, as a Hugging Face folder");
  create_command->add_option("dir", a->dir, "Folder to write")->required();
  create_command->add_option("--preset", a->preset, "tiny (0.9 million parameters) or small (25 million)")
      ->type_name("NAME")
      ->capture_default_str();
  create_command->add_option("--seed", a->seed, "Same seed, same bytes")
      ->type_name("SEED")
      ->capture_default_str();
  create_command->callback([a, &exit_code] { exit_code = create(*a); });

  auto* show_command = command->add_subcommand("show", "Shape, KV size and fingerprints of a model");
  show_command->add_option("model", a->dir, "A folder, tiny or small")->required();
  show_command->callback([a, &exit_code] { exit_code = show(*a); });
}

} // namespace dualpath::apps

#include "apps/cmd_plan.hpp"

#include "apps/command.hpp"
#include "apps/options.hpp"
#include "apps/plan.hpp"
#include "core/units.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>
#include <memory>

namespace dualpath::apps {

namespace {

struct plan_arguments {
  std::string cluster = "2P4D", nic = "50GB/s", memory = "500GB/s", append = "429", context = "32K";
  std::string gpu_flops = "400TFLOPS";
  std::uint32_t gpus_per_node = 8;
  double storage_ratio = 1, hit_rate = 1;
  std::vector<std::string> models;
};

template <class T>
core::result<void> set_to(const char* flag, core::result<T> parsed, T& target) {
  if (!parsed) return core::error{parsed.error().code, std::string{flag} + ": " + parsed.error().text};
  target = std::move(*parsed);
  return {};
}

core::result<plan_request> to_request(const plan_arguments& arguments) {
  plan_request request;
  cluster_size size;
  auto& cluster = request.cluster;
  cluster.gpus_per_node = arguments.gpus_per_node;
  cluster.storage_ratio = arguments.storage_ratio;
  for (auto& set :
       {set_to("--cluster", parse_cluster(arguments.cluster), size),
        set_to("--nic-bandwidth", core::parse_bytes_per_second(arguments.nic), cluster.nic_bytes_per_s),
        set_to("--memory-bandwidth", core::parse_bytes_per_second(arguments.memory),
               cluster.memory_bytes_per_s),
        set_to("--append", parse_tokens(arguments.append), request.turn.append_tokens),
        set_to("--context", parse_tokens(arguments.context), request.turn.context_tokens),
        set_to("--gpu-flops", core::parse_flops(arguments.gpu_flops), request.gpu_flops)})
    if (!set) return set.error();
  cluster.prefill_nodes = size.prefill_nodes;
  cluster.decode_nodes = size.decode_nodes;
  if (!(request.gpu_flops > 0))
    return core::error{core::errc::invalid_argument, "--gpu-flops must be above 0, as in 400TFLOPS"};
  if (!(arguments.hit_rate > 0 && arguments.hit_rate <= 1))
    return core::error{core::errc::invalid_argument, "--hit-rate must be above 0 and at most 1"};
  request.turn.hit_rate = arguments.hit_rate;
  for (const auto& name : arguments.models) {
    auto model = find_planned_model(name);
    if (!model) return core::error{model.error().code, "--model: " + model.error().text};
    request.models.push_back(std::move(*model));
  }
  if (request.models.empty()) request.models = all_published_models();
  return request;
}

int plan(const plan_arguments& arguments) {
  auto request = to_request(arguments);
  if (!request) return report_error(request.error());
  auto text = format_plan(*request);
  if (!text) return report_error(text.error());
  std::cout << *text;
  return exit_ok;
}

} // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "plan", "Say whether the dual path pays for a model and a cluster, and which NIC or memory limits it");
  auto a = std::make_shared<plan_arguments>();
  auto add = [&](const char* flag, auto& target, const char* type, const char* help) {
    return command->add_option(flag, target, help)->type_name(type)->capture_default_str();
  };
  add("--cluster", a->cluster, "xPyD", "Prefill and decode nodes");
  add("--gpus-per-node", a->gpus_per_node, "N", "GPUs of a node, each with one compute NIC");
  add("--storage-ratio", a->storage_ratio, "S", "Storage bandwidth of a node in units of one compute NIC");
  add("--nic-bandwidth", a->nic, "RATE", "Of one compute NIC, each way");
  add("--memory-bandwidth", a->memory, "RATE", "Of a node");
  command
      ->add_option(
          "--model", a->models,
          "A published model such as DeepSeek-V3.2, or the folder of a model; may be repeated; without it "
          "all published models")
      ->type_name("MODEL")
      ->allow_extra_args(false);
  add("--append", a->append, "TOKENS", "New tokens of a turn");
  add("--context", a->context, "TOKENS", "Tokens before the turn; 32K is 32768");
  add("--hit-rate", a->hit_rate, "SHARE", "Share of the context found in the store");
  add("--gpu-flops", a->gpu_flops, "RATE", "What a GPU reaches in prefill");
  command->callback([a, &exit_code] { exit_code = plan(*a); });
}

} // namespace dualpath::apps

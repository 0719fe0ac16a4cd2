#include "scenario_run.hpp"

#include "actors/settings.hpp"
#include "apps/run_cluster.hpp"
#include "core/fault_plan.hpp"
#include "storage/file_store.hpp"

#include <cstdlib>
#include <filesystem>

namespace dualpath::scenarios {

namespace {

constexpr const char* least = "@least";

void replace_all(std::string& text, std::string_view what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

apps::raw_run_options filled_in(const run_spec& run, const scenario_store& store) {
  apps::raw_run_options raw;
  raw.given = run.options;
  for (auto& [name, values] : raw.given) {
    for (auto& value : values) {
      replace_all(value, "@store", store.path().string());
      replace_all(value, "@seed", std::to_string(scenario_seed()));
    }
  }
  auto trace = raw.given.find("trace");
  if (trace != raw.given.end() && trace->second.front().starts_with("traces/"))
    trace->second.front() = DUALPATH_SOURCE_DIR "/" + trace->second.front();
  return raw;
}

std::string command_line_of(const apps::raw_run_options& raw) {
  std::string text = "dualpath run";
  for (auto& [name, values] : raw.given)
    for (auto& value : values) text += " --" + name + " '" + value + "'";
  return text;
}

/// The bytes that "@least" stands for.
void fill_in_least(apps::raw_run_options& raw, const apps::run_inputs& inputs,
                   const kernels::compute_device& device) {
  auto layout = device.layout();
  auto longest = layout.blocks_for(core::compute_stats(*inputs.trace).max_total);
  actors::cluster_settings settings;
  for (auto& [name, values] : raw.given) {
    if (values.front() != least) continue;
    auto slot_bytes = storage::padded_bytes(layout.full_block_bytes());
    auto bytes = name == "pe-buffer" || name == "de-buffer" ? (longest + settings.write_slots) * slot_bytes
                 : name == "hbm"                            ? longest * layout.full_block_bytes()
                                 : settings.staging_slots * longest * layout.layer_block_bytes();
    values.front() = std::to_string(bytes);
  }
}

core::result<std::vector<storage::block_name>> blocks_of_model(const scenario_store& store,
                                                               const kernels::compute_device& device) {
  auto opened = storage::open_file_store({store.path(), apps::fingerprint_of(device), device.layout()});
  if (!opened) return opened.error();
  std::vector<storage::block_name> names;
  auto scanned = (*opened)->scan([&](const storage::block_name& name) { names.push_back(name); });
  if (!scanned) return scanned.error();
  return names;
}

/// Everything up to the run itself; the result has what it was told to do.
core::result<apps::run_options> prepare(const run_spec& run, const scenario_store& store,
                                        apps::run_inputs& inputs, run_outcome& outcome) {
  auto raw = filled_in(run, store);
  outcome.command_line = command_line_of(raw);
  auto sized = raw;
  std::erase_if(sized.given, [](auto& option) { return option.second.front() == least; });
  auto options = apps::resolve(sized);
  if (!options) return options;
  auto prepared = apps::prepare_inputs(*options);
  if (!prepared) return prepared.error();
  inputs = std::move(*prepared);
  core::steady_clock clock;
  auto device = apps::make_compute(*options, inputs.compute, clock);
  if (!device) return device.error();
  fill_in_least(raw, inputs, **device);
  outcome.command_line = command_line_of(raw);
  if (!run.damage.how.empty()) {
    auto names = blocks_of_model(store, **device);
    if (!names) return names.error();
    auto damaged = damage_blocks(store, *names, run.damage, scenario_seed());
    if (!damaged) return damaged.error();
    outcome.damaged = std::move(*damaged);
  }
  return apps::resolve(raw);
}

} // namespace

std::uint64_t scenario_seed() {
  if (const char* given = std::getenv("DUALPATH_SEED")) return std::strtoull(given, nullptr, 10);
  return 1;
}

run_outcome execute(const run_spec& run, const scenario_store& store) {
  run_outcome outcome;
  outcome.name = run.name;
  apps::run_inputs inputs;
  auto options = prepare(run, store, inputs, outcome);
  if (!options) {
    outcome.failure = options.error();
    return outcome;
  }
  for (auto& trajectory : inputs.trace->trajectories) {
    outcome.rounds_expected += trajectory.rounds.size();
    for (auto& round : trajectory.rounds) outcome.tokens_expected += round.generate_tokens;
  }
  if (auto plan = core::fault_plan::parse(options->inject); plan)
    outcome.faults_planned = plan->describe().size();
  outcome.blocks_before = store.block_files().size();
  inputs.await_idle = true;
  auto record = apps::run_once(*options, inputs, {});
  auto files = store.block_files();
  outcome.blocks_after = files.size();
  for (auto& file : files) outcome.store_bytes_after += std::filesystem::file_size(file);
  if (!record) {
    outcome.failure = record.error();
    return outcome;
  }
  outcome.record = std::move(*record);
  outcome.summary = core::summarise(outcome.record);
  return outcome;
}

} // namespace dualpath::scenarios

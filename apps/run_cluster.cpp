#include "apps/run_cluster.hpp"

#include "actors/cluster.hpp"
#include "apps/calibration.hpp"
#include "apps/cluster_sizes.hpp"
#include "apps/workload_setup.hpp"
#include "core/fault_plan.hpp"
#include "core/units.hpp"

#include <cstdlib>
#include <filesystem>

namespace dualpath::apps {

namespace {

namespace fs = std::filesystem;

/// Where blocks are stored: as the user says, or in a folder that is gone afterwards.
class run_store {
public:
  static core::result<run_store> open(const run_options& options) {
    auto external = options.policy != core::policy::recompute && options.policy != core::policy::oracle;
    if (!external) return run_store{{}, false};
    if (!options.store.empty()) {
      auto spec = storage::parse_store_spec(options.store);
      if (!spec) return spec.error();
      return run_store{std::move(*spec), false};
    }
    std::error_code failed;
    auto pattern = (fs::temp_directory_path(failed) / "dualpath-store-XXXXXX").string();
    if (failed || ::mkdtemp(pattern.data()) == nullptr)
      return core::error{core::errc::io, "cannot make a temporary folder for the block store at '" + pattern
                                             + "'; name one with --store"};
    return run_store{{storage::store_spec::kind::files, pattern}, true};
  }
  run_store(run_store&& other) noexcept
      : spec_{std::move(other.spec_)}, temporary_{std::exchange(other.temporary_, false)} {}
  run_store& operator=(run_store&&) = delete;
  ~run_store() {
    std::error_code ignored;
    if (temporary_) fs::remove_all(spec_.path, ignored);
  }
  const storage::store_spec& spec() const { return spec_; }

private:
  run_store(storage::store_spec spec, bool temporary) : spec_{std::move(spec)}, temporary_{temporary} {}
  storage::store_spec spec_;
  bool temporary_;
};

core::result<void> check_model_limits(const kernels::model_info& model, const core::trace_stats& trace) {
  if (trace.max_total <= model.max_tokens) return {};
  return core::error{core::errc::invalid_argument,
                     "the trace has contexts of " + std::to_string(trace.max_total) + " tokens, the model '"
                         + model.name + "' takes " + std::to_string(model.max_tokens)
                         + "; shrink the trace with --scale-tokens or cut it with --max-rounds"};
}

std::shared_ptr<const std::vector<storage::block_name>> scan_store(storage::block_store* store,
                                                                   core::result<void>& status) {
  auto names = std::make_shared<std::vector<storage::block_name>>();
  if (store) status = store->scan([&](const storage::block_name& name) { names->push_back(name); });
  return names;
}

core::result<double> read_rate(const run_options& options, storage::block_store* store) {
  if (!store) return 0.0;
  if (options.snic_bandwidth > 0) return options.snic_bandwidth;
  return measure_read_rate(*store);
}

struct calibrated_settings {
  std::shared_ptr<actors::cluster_settings> settings;
  core::calibration_record measured;
};

core::result<calibrated_settings> make_settings(const run_options& options, core::clock& clock,
                                                kernels::compute_device& device, storage::block_store* store,
                                                const core::attention_cost_model& prefill,
                                                const core::trace_stats& trace) {
  auto settings = std::make_shared<actors::cluster_settings>();
  settings->clock = &clock;
  settings->policy = options.policy;
  settings->layout = device.layout();
  settings->fingerprint = fingerprint_of(device);
  settings->slot_bytes = storage::padded_bytes(settings->layout.full_block_bytes());
  auto free_of_cost = options.policy == core::policy::oracle;
  settings->snic_bytes_per_s = free_of_cost ? 0 : options.snic_bandwidth;
  settings->cnic_bytes_per_s = free_of_cost ? 0 : options.cnic_bandwidth;
  settings->quota.quota = options.quota;
  settings->quota.max_chunk_tokens = options.chunk_tokens;
  settings->cost_model = prefill;
  auto rate = read_rate(options, store);
  // A full store cannot be measured; without a rate, alpha is 0 and only an empty read queue is a short one.
  if (!rate && rate.error().code != core::errc::no_space) return rate.error();
  settings->thresholds = derive_thresholds(prefill, rate ? *rate : 0, settings->layout, trace);
  return calibrated_settings{settings,
                             {prefill.base_s, prefill.per_token_s, prefill.per_pair_s, rate ? *rate : 0}};
}

void name_run(core::run_record& record, const run_options& options, const kernels::model_info& model,
              const core::trace& trace, const calibrated_settings& calibrated) {
  record.policy = to_string(options.policy);
  record.cluster = to_string(options.cluster);
  record.model = model.name;
  record.compute = options.compute.kind == compute_kind::cpu ? "cpu" : "pattern";
  record.trace = trace.name;
  record.alpha_tokens = calibrated.settings->thresholds.short_queue_tokens;
  record.beta_tokens = calibrated.settings->thresholds.overload_tokens;
  record.calibration = calibrated.measured;
}

} // namespace

core::result<run_inputs> prepare_inputs(const run_options& options) {
  run_inputs inputs;
  auto trace = prepare_trace(options);
  if (!trace) return trace.error();
  inputs.trace = std::make_shared<const core::trace>(std::move(*trace));
  auto compute = open_compute_source(options);
  if (!compute) return compute.error();
  inputs.compute = std::move(*compute);
  core::steady_clock clock;
  auto probe = make_compute(options, inputs.compute, clock);
  if (!probe) return probe.error();
  if (auto fits = check_model_limits((*probe)->model(), core::compute_stats(*inputs.trace)); !fits)
    return fits.error();
  auto prefill = measure_prefill(**probe);
  if (!prefill) return prefill.error();
  inputs.prefill = *prefill;
  return inputs;
}

core::result<core::run_record> run_once(const run_options& options, const run_inputs& inputs,
                                        const progress_function& on_progress) {
  core::steady_clock clock;
  auto where = run_store::open(options);
  if (!where) return where.error();
  auto probe = make_compute(options, inputs.compute, clock);
  if (!probe) return probe.error();
  auto stats = core::compute_stats(*inputs.trace);
  auto layout = (*probe)->layout();
  auto sizes = choose_sizes(options, layout, storage::padded_bytes(layout.full_block_bytes()),
                            actors::cluster_settings{}.staging_slots, actors::cluster_settings{}.write_slots,
                            stats, available_memory_bytes());
  if (!sizes) return sizes.error();
  auto nodes = make_nodes(options, inputs.compute, clock, *sizes, where->spec());
  if (!nodes) return nodes.error();
  auto* store = nodes->front()->store.get();
  auto calibrated = make_settings(options, clock, **probe, store, inputs.prefill, stats);
  if (!calibrated) return calibrated.error();
  auto faults = core::fault_plan::parse(options.inject);
  if (!faults) return faults.error();
  calibrated->settings->faults = &*faults;

  auto plan = std::make_shared<actors::cluster_plan>();
  plan->settings = calibrated->settings;
  plan->nodes.assign(nodes->begin(), nodes->end());
  core::result<void> scanned;
  plan->stored = scan_store(store, scanned);
  if (!scanned) return scanned.error();
  plan->replay.trace = inputs.trace;
  plan->replay.seed = options.seed;
  plan->replay.vocabulary = (*probe)->model().vocabulary;
  plan->replay.temperature = options.temperature;
  plan->replay.keep_prompts = !options.tokens.empty();
  plan->replay.on_progress = on_progress;
  auto record = actors::run_cluster(plan);
  if (!record) return record;
  name_run(*record, options, (*probe)->model(), *inputs.trace, *calibrated);
  if (faults->pending() > 0)
    record->warnings.push_back(std::to_string(faults->pending())
                               + " planned faults never happened: the run was too short");
  if (record->store_full)
    record->warnings.push_back("the block store was full: served without writing every block");
  return record;
}

} // namespace dualpath::apps

#include "apps/run_cluster.hpp"

#include "actors/cluster.hpp"
#include "apps/calibration.hpp"
#include "apps/cluster_sizes.hpp"
#include "apps/faulty_devices.hpp"
#include "apps/progress.hpp"
#include "apps/run_settings.hpp"
#include "apps/run_store.hpp"
#include "apps/workload_setup.hpp"
#include "core/fault_plan.hpp"
#include "core/log.hpp"
#include "core/running_clock.hpp"
#include "core/units.hpp"

#include <bitset>
#include <utility>

namespace dualpath::apps {

namespace {

core::result<void> check_model_limits(const kernels::model_info& model, const core::trace_stats& trace) {
  if (trace.max_total <= model.max_tokens) return {};
  return core::error{core::errc::invalid_argument,
                     "the trace has contexts of " + std::to_string(trace.max_total) + " tokens, the model '"
                         + model.name + "' takes " + std::to_string(model.max_tokens)
                         + "; shrink the trace with --scale-tokens or cut it with --max-rounds"};
}

/// Shows how far it is: keys are evenly spread, and most stores list them folder by folder, which begin
/// alike.
std::shared_ptr<const std::vector<storage::block_name>>
scan_store(storage::block_store* store, bool show_progress, core::result<void>& status) {
  auto names = std::make_shared<std::vector<storage::block_name>>();
  if (!store) return names;
  progress bar{"stored blocks", show_progress};
  std::bitset<256> begun;
  core::steady_clock clock;
  auto start = clock.now();
  status = store->scan([&](const storage::block_name& name) {
    names->push_back(name);
    begun.set(name.key.bytes[0]);
    bar.update(names->size(), names->size() * begun.size() / begun.count());
  });
  core::log_event(core::log_level::info, "store_listed",
                  {{"blocks", names->size()}, {"seconds", core::to_seconds(clock.now() - start)}});
  return names;
}

core::result<double> read_rate(const run_options& options, const storage::store_spec& spec,
                               const kernels::compute_device& device, storage::block_store* store) {
  if (!store) return 0.0;
  if (options.snic_bandwidth > 0) return options.snic_bandwidth;
  auto external = options.policy != core::policy::oracle;
  if (!external || options.store_capacity_bytes == 0) return measure_read_rate(*store);
  // Through a store of its own: blocks written to measure must not push out those that were kept.
  auto unbounded = storage::open_store(spec, {fingerprint_of(device), device.layout()});
  if (!unbounded) return unbounded.error();
  return measure_read_rate(**unbounded);
}

struct calibrated_settings {
  std::shared_ptr<actors::cluster_settings> settings;
  core::calibration_record measured;
};

core::result<calibrated_settings> make_settings(const run_options& options, core::clock& clock,
                                                kernels::compute_device& device,
                                                const storage::store_spec& spec, storage::block_store* store,
                                                const core::attention_cost_model& prefill,
                                                const core::trace_stats& trace) {
  auto settings = base_settings(options, clock, device);
  settings->cost_model = prefill;
  auto rate = read_rate(options, spec, device, store);
  // A full store cannot be measured; without a rate, alpha is 0 and only an empty read queue is a short one.
  if (!rate && rate.error().code != core::errc::no_space) return rate.error();
  settings->thresholds = derive_thresholds(prefill, rate ? *rate : 0, settings->layout, trace);
  return calibrated_settings{settings,
                             {prefill.base_s, prefill.per_token_s, prefill.per_pair_s, rate ? *rate : 0}};
}

/// What the nodes of other processes are to make and do.
actors::remote_nodes remote_nodes_for(const run_options& options, cluster_session& session,
                                      const run_store& store, const kernels::compute_device& device,
                                      const core::attention_cost_model& prefill,
                                      const core::trace_stats& trace) {
  actors::remote_nodes remote;
  remote.membership = session.membership();
  remote.engines = (options.cluster.nodes() - (options.head_only ? 0 : 1)) * options.gpus_per_node;
  auto& wanted = remote.wanted;
  wanted.gpus_per_node = options.gpus_per_node;
  wanted.own = facts_of(device);
  wanted.order.run = wanted.serve.run = session.next_run();
  for (auto& [name, values] : session.settings()) wanted.order.settings.push_back({name, values});
  wanted.order.settings.push_back({"policy", {to_string(options.policy)}});
  wanted.order.store = store.text;
  wanted.order.longest_tokens = trace.max_total;
  wanted.order.sessions = trace.trajectories;
  wanted.serve.prefill_base_s = prefill.base_s;
  wanted.serve.prefill_token_s = prefill.per_token_s;
  wanted.serve.prefill_pair_s = prefill.per_pair_s;
  return remote;
}

core::result<node_list> nodes_here(const run_options& options, const cluster_session& session,
                                   const compute_source& source, core::clock& clock,
                                   const kernels::compute_device& device, const core::trace_stats& trace,
                                   const storage::store_spec& store) {
  if (options.head_only) return node_list{};
  auto sizes = sizes_for(options, device, trace);
  if (!sizes) return sizes.error();
  if (!session.spans_processes()) return make_nodes(options, source, clock, *sizes, store);
  auto first = make_node(options, source, clock, *sizes, store, nullptr, {});
  if (!first) return first.error();
  return node_list{std::move(*first)};
}

/// Steps are counted in a process: which one must be clear where there are many, and is where there is one.
core::result<core::fault_plan> faults_here(const run_options& options, const cluster_session& session) {
  for (auto& fault : options.inject) {
    if (core::fault_plan::named_node(fault).has_value() == session.spans_processes()) continue;
    return core::error{
        core::errc::invalid_argument,
        "--inject: '" + fault + "' "
            + (session.spans_processes()
                   ? "does not say where: every node is a process that counts its own steps; "
                     "write "
                         + fault + "@NODE"
                   : "names a node, but all nodes are in this process, where steps are counted "
                     "over all of them; leave the node out")};
  }
  return core::fault_plan::parse_for(options.inject, core::node_id{0});
}

/// Which blocks there are at start, and how fast they are read, is for the head to find out, with engines or
/// without.
core::result<std::shared_ptr<storage::block_store>> store_of_head(const run_options& options,
                                                                  const node_list& here,
                                                                  const storage::store_spec& spec,
                                                                  const kernels::compute_device& device) {
  if (!here.empty()) return here.front()->store;
  return open_node_store(options, spec, nullptr, device);
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

void warn_of_what_is_left(core::run_record& record) {
  for (std::size_t i = 0; i < core::resource_count; ++i)
    if (record.left_behind[i] > 0)
      record.warnings.push_back(std::to_string(record.left_behind[i]) + " "
                                + to_string(static_cast<core::resource>(i))
                                + " were still held after the last request");
}

/// `here`: the plan of this process.
void warn_of_faults(core::run_record& record, const run_options& options, const cluster_session& session,
                    const core::fault_plan& here) {
  std::vector<core::missed_fault> missed;
  if (session.spans_processes()) {
    auto told = record.told_faults;
    told.push_back({core::node_id{0}, here.describe(), here.pending_faults()});
    missed = core::missed_faults(options.inject, told, record.silent_nodes);
  } else {
    for (auto& fault : here.pending_faults()) missed.push_back({fault, core::fault_miss::not_reached});
  }
  for (auto& sentence : core::describe(missed)) record.warnings.push_back(sentence);
}

void warn_of_store(core::run_record& record) {
  if (record.store_full)
    record.warnings.push_back("the block store was full: served without writing every block");
  if (record.read_errors + record.blocks_unwritten > 0)
    record.warnings.push_back("the block store failed: " + std::to_string(record.read_errors)
                              + " reads ended with an error, so that "
                              + std::to_string(record.blocks_unreadable)
                              + " blocks which neither side could read were computed again; "
                              + std::to_string(record.blocks_unwritten) + " blocks could not be written");
  if (record.storage_overdue > 0)
    record.warnings.push_back("the block store failed to answer " + std::to_string(record.storage_overdue)
                              + " operations in time (--deadline)");
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

core::result<core::run_record> run_once(const run_options& given, const run_inputs& inputs,
                                        cluster_session& session, const progress_function& on_progress,
                                        std::shared_ptr<core::drain_switch> drain) {
  auto options = given;
  options.net_device = session.net_device();
  options.data_plane_secret = session.secret();
  core::running_clock clock;
  auto where = run_store::open(options, session.spans_processes());
  if (!where) return where.error();
  auto probe = make_compute(options, inputs.compute, clock);
  if (!probe) return probe.error();
  auto stats = core::compute_stats(*inputs.trace);
  auto nodes = nodes_here(options, session, inputs.compute, clock, **probe, stats, where->spec);
  if (!nodes) return nodes.error();
  auto opened = store_of_head(options, *nodes, where->spec, **probe);
  if (!opened) return opened.error();
  auto* store = opened->get();
  auto calibrated = make_settings(options, clock, **probe, where->spec, store, inputs.prefill, stats);
  if (!calibrated) return calibrated.error();
  auto faults = faults_here(options, session);
  if (!faults) return faults.error();
  core::usage_gauge usage;
  core::flight_peaks flights;
  calibrated->settings->wall = &clock.wall();
  calibrated->settings->flights = &flights;
  calibrated->settings->faults = &*faults;
  calibrated->settings->join_address = session.join_address();
  if (!session.join_address().empty()) calibrated->settings->role_patience = options.wait_for_role;
  if (inputs.await_idle || !faults->empty()) calibrated->settings->usage = &usage;
  inject_device_faults(*nodes, *faults, *calibrated->settings);

  auto plan = std::make_shared<actors::cluster_plan>();
  plan->settings = calibrated->settings;
  plan->nodes.assign(nodes->begin(), nodes->end());
  if (session.spans_processes())
    plan->remote = remote_nodes_for(options, session, *where, **probe, inputs.prefill, stats);
  core::result<void> scanned;
  plan->stored = scan_store(store, !options.no_progress, scanned);
  if (!scanned) return scanned.error();
  plan->replay.trace = inputs.trace;
  plan->replay.seed = options.seed;
  plan->replay.vocabulary = (*probe)->model().vocabulary;
  plan->replay.temperature = options.temperature;
  plan->replay.keep_prompts = !options.tokens.empty();
  plan->replay.on_progress = on_progress;
  plan->replay.drain = std::move(drain);
  auto record = actors::run_cluster(session.plane(), plan);
  if (!record) return record;
  name_run(*record, options, (*probe)->model(), *inputs.trace, *calibrated);
  if (record->rounds.size() < record->rounds_planned)
    record->warnings.push_back("interrupted: " + std::to_string(record->rounds.size()) + " of "
                               + std::to_string(record->rounds_planned) + " rounds");
  else
    warn_of_faults(*record, options, session, *faults);
  warn_of_what_is_left(*record);
  warn_of_store(*record);
  return record;
}

core::result<core::run_record> run_once(const run_options& options, const run_inputs& inputs,
                                        const progress_function& on_progress) {
  cluster_session alone;
  return run_once(options, inputs, alone, on_progress);
}

} // namespace dualpath::apps

#include "actors/cluster.hpp"

#include "actors/children.hpp"

#include <algorithm>
#include <future>
#include <mutex>

namespace dualpath::actors {

namespace {

/// The first outcome counts: a failing child may be followed by others.
class first_outcome {
public:
  void set(core::result<replay_result> r) {
    std::call_once(once_, [&] { promise_.set_value(std::move(r)); });
  }
  core::result<replay_result> get() { return promise_.get_future().get(); }

private:
  std::once_flag once_;
  std::promise<core::result<replay_result>> promise_;
};

/// How long a run waits at its end until nothing is held for requests any more; 0 where nobody counts.
core::duration settle_limit(const cluster_settings& settings) {
  if (!settings.usage) return {};
  return std::max<core::duration>(std::chrono::seconds{10}, 8 * settings.deadline);
}

/// What is still held in this process after that time. Devices that were made to hang are set going again
/// first: their memory must come back too.
core::resource_usage settle(const cluster_settings& settings) {
  if (!settings.usage) return {};
  if (settings.faults) settings.faults->held().end_all();
  return settings.usage->await_idle(*settings.clock, settle_limit(settings));
}

/// `counts`: node_counters of a node here, or the report of one elsewhere.
template <class Counts>
void add_counts(core::run_record& record, core::node_id node, core::engine_role role, const Counts& counts) {
  record.nodes.push_back({node, role, counts.storage_read_bytes, counts.storage_written_bytes,
                          counts.kv_put_bytes, counts.kv_get_bytes, counts.copied_bytes});
  record.blocks_written += counts.blocks_written;
  record.blocks_missing += counts.blocks_missing;
  record.blocks_corrupt += counts.blocks_corrupt;
  record.blocks_unreadable += counts.blocks_unreadable;
  record.blocks_unwritten += counts.blocks_unwritten;
  record.read_errors += counts.read_errors;
  record.storage_overdue += counts.storage_overdue;
  record.adopted_tokens += counts.adopted_tokens;
  record.engine_restarts += counts.engine_restarts;
  record.store_full |= counts.store_full;
}

void add_pauses(core::run_record& record, core::node_id node, const core::pauses& noticed) {
  if (noticed.count > 0) record.pauses_of[node] = noticed;
}

/// Has the nodes of other processes stop, and waits for what they counted.
void end_remote_run(control_plane& plane, const remote_nodes& remote, core::duration settle,
                    core::run_record& record) {
  caf::scoped_actor self{plane.system(), true};
  auto settle_ms = static_cast<std::uint64_t>(settle / std::chrono::milliseconds{1});
  self->request(remote.membership, caf::infinite, proto::end_run{remote.wanted.order.run, settle_ms})
      .receive(
          [&](const proto::node_reports& all) {
            for (auto& report : all.reports) {
              add_counts(record, report.node, report.role, report);
              add_pauses(record, report.node, {report.pauses, core::duration{report.paused_ns}});
              record.faults_happened += report.faults_happened;
              record.told_faults.push_back({report.node, report.faults_planned, report.faults_pending});
              for (std::size_t i = 0; i < report.held.size() && i < core::resource_count; ++i)
                record.left_behind[i] += report.held[i];
            }
            record.silent_nodes.insert(all.silent.begin(), all.silent.end());
            record.warnings.insert(record.warnings.end(), all.warnings.begin(), all.warnings.end());
          },
          [&](const caf::error& e) {
            record.warnings.push_back("no node reported what it counted: " + plane.system().render(e));
          });
}

} // namespace

core::result<core::run_record> run_cluster(control_plane& plane, std::shared_ptr<const cluster_plan> plan) {
  auto outcome = std::make_shared<first_outcome>();
  auto pauses_before = plane.pauses();
  auto& system = plane.system();
  auto root =
      system.spawn(cluster_supervisor, plan,
                   replay_done{[outcome](core::result<replay_result> r) { outcome->set(std::move(r)); }});
  auto result = outcome->get();
  core::run_record record;
  // While all actors live: what one engine holds may come back by the word of another.
  if (result) record.left_behind = settle(*plan->settings);
  if (plan->remote)
    end_remote_run(plane, *plan->remote, result ? settle_limit(*plan->settings) : core::duration{}, record);
  stop_actor(caf::actor_cast<caf::actor>(root));
  root = nullptr;
  system.await_all_actors_done();
  if (plan->settings->faults) plan->settings->faults->held().end_all();
  for (auto& node : plan->nodes) add_counts(record, node->node, node->role, *node->counters);
  add_pauses(record, core::node_id{0}, plane.pauses().since(pauses_before));
  std::sort(record.nodes.begin(), record.nodes.end(), [](auto& a, auto& b) { return a.node < b.node; });
  if (!result) return result.error();
  record.jct = result->jct;
  record.flights.bound_bytes = plan->settings->control_in_flight_bytes;
  record.flights.client_peak_bytes = result->peak_in_flight_bytes;
  if (plan->settings->flights) record.flights.peak_bytes = plan->settings->flights->all();
  if (plan->settings->faults) record.faults_happened += plan->settings->faults->happened();
  record.rounds = std::move(result->rounds);
  record.rounds_planned = result->rounds_planned;
  return record;
}

core::result<core::run_record> run_cluster(std::shared_ptr<const cluster_plan> plan) {
  control_plane plane;
  return run_cluster(plane, std::move(plan));
}

} // namespace dualpath::actors

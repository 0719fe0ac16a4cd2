#include "actors/cluster.hpp"

#include "actors/children.hpp"

#include <future>
#include <mutex>

namespace dualpath::actors {

namespace {

struct system_config : caf::actor_system_config {
  system_config() {
    add_message_types<caf::id_block::dualpath>();
    // Sharing wakes an idle worker in some 10 µs; stealing polls with sleeps of 50 µs.
    set("scheduler.policy", caf::atom("sharing"));
    // An engine that messages itself must not starve its worker.
    set("scheduler.max-throughput", 50);
    set("logger.console", caf::atom("none"));
  }
};

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

void add_counters(core::run_record& record, const node_devices& node) {
  auto& c = *node.counters;
  record.nodes.push_back({node.node, node.role, c.storage_read_bytes, c.storage_written_bytes, c.kv_put_bytes,
                          c.kv_get_bytes, c.copied_bytes});
  record.blocks_written += c.blocks_written;
  record.blocks_missing += c.blocks_missing;
  record.blocks_corrupt += c.blocks_corrupt;
  record.engine_restarts += c.engine_restarts;
  record.store_full |= c.store_full;
}

} // namespace

core::result<core::run_record> run_cluster(std::shared_ptr<const cluster_plan> plan) {
  auto outcome = std::make_shared<first_outcome>();
  auto result = [&] {
    system_config config;
    caf::actor_system system{config};
    auto root =
        system.spawn(cluster_supervisor, plan,
                     replay_done{[outcome](core::result<replay_result> r) { outcome->set(std::move(r)); }});
    auto r = outcome->get();
    stop_actor(caf::actor_cast<caf::actor>(root));
    root = nullptr;
    system.await_all_actors_done();
    return r;
  }();
  if (!result) return result.error();
  core::run_record record;
  record.jct = result->jct;
  record.rounds = std::move(result->rounds);
  for (auto& node : plan->nodes) add_counters(record, *node);
  return record;
}

} // namespace dualpath::actors

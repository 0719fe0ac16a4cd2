#include "actors/node_host.hpp"

#include "actors/children.hpp"
#include "actors/node_supervisor.hpp"

#include "core/log.hpp"

#include <optional>
#include <thread>
#include <vector>

namespace dualpath::actors {

namespace {

using proto::outcome;

constexpr auto join_answer_deadline = std::chrono::seconds{10};
constexpr auto retry_interval = std::chrono::milliseconds{100};

core::result<proto::membership_actor> find_head(control_plane& plane, const node_host_options& options) {
  auto give_up = std::chrono::steady_clock::now() + options.join_deadline;
  for (;;) {
    auto head = plane.find_head(options.head_host, options.head_port);
    if (head || head.error().code != core::errc::disconnected) return head;
    if (std::chrono::steady_clock::now() > give_up) return head;
    std::this_thread::sleep_for(retry_interval);
  }
}

proto::node_report count(const proto::run_order& order, const node_devices& node,
                         const core::fault_plan* faults) {
  auto& c = *node.counters;
  proto::node_report report;
  report.run = order.run;
  report.node = order.node;
  report.role = order.role;
  report.storage_read_bytes = c.storage_read_bytes;
  report.storage_written_bytes = c.storage_written_bytes;
  report.kv_put_bytes = c.kv_put_bytes;
  report.kv_get_bytes = c.kv_get_bytes;
  report.copied_bytes = c.copied_bytes;
  report.blocks_written = c.blocks_written;
  report.blocks_missing = c.blocks_missing;
  report.blocks_corrupt = c.blocks_corrupt;
  report.blocks_unreadable = c.blocks_unreadable;
  report.blocks_unwritten = c.blocks_unwritten;
  report.read_errors = c.read_errors;
  report.storage_overdue = c.storage_overdue;
  report.adopted_tokens = c.adopted_tokens;
  report.engine_restarts = c.engine_restarts;
  report.store_full = c.store_full;
  if (faults) {
    report.faults_happened = faults->happened();
    report.faults_planned = faults->describe();
    report.faults_pending = faults->pending_faults();
  }
  return report;
}

void cannot_drain(const std::string& why) {
  core::log_event(core::log_level::warn, "node_cannot_drain", {{"why", why}});
}

/// The agent: a blocking actor on the thread of its caller, since making devices blocks.
class node_agent {
public:
  node_agent(control_plane& plane, const node_host_options& options)
      : plane_{plane}, options_{options}, self_{plane.system(), true} {}
  ~node_agent() { end_actors(); }

  core::result<void> join();
  core::result<void> serve_until_dismissed();

private:
  void prepare(const proto::run_order& order);
  void serve(const proto::serve_run& orders);
  void stop_serving(core::duration settle = {});
  void end_actors();
  void report(core::duration settle);
  /// The agent itself and CAF's own actors stay.
  void await_own_actors() { plane_.system().registry().await_running_count_equal(idle_actors_); }
  void meet(const proto::meet_node& other);
  void watch(const caf::down_msg& down);

  control_plane& plane_;
  const node_host_options& options_;
  std::optional<node_run>
      run_; ///< outlives the agent: a store that hangs must not keep its end from the head
  caf::scoped_actor self_;
  proto::membership_actor head_;
  core::node_id node_;
  proto::run_order order_;
  caf::actor supervisor_;
  std::size_t idle_actors_ = 0;
  core::pauses pauses_before_;  ///< the run
  std::vector<caf::actor> met_; ///< referred to, so that the connections stay
  bool dismissed_ = false;
  std::optional<core::error> failure_;
};

core::result<void> node_agent::join() {
  auto me = caf::actor{self_};
  auto port = plane_.publish(me, options_.listen_host, 0);
  if (!port) return port.error();
  auto head = find_head(plane_, options_);
  if (!head) return head.error();
  head_ = *head;
  self_->monitor(head_);
  auto request = options_.request;
  request.agent = caf::actor_cast<caf::strong_actor_ptr>(me);
  request.address = {options_.known_as, *port};
  core::result<void> result;
  self_->request(head_, join_answer_deadline, request)
      .receive(
          [&](const proto::joined& answer) {
            node_ = answer.node;
            if (!answer.why_refused.empty())
              result =
                  core::error{core::errc::refused, "the cluster refused this node: " + answer.why_refused};
          },
          [&](caf::error& e) {
            result =
                core::error{core::errc::timed_out, "the head did not answer: " + plane_.system().render(e)};
          });
  if (result && options_.on_joined)
    options_.on_joined(node_, [me, node = node_] { caf::anon_send(me, proto::drain_node{node}); });
  return result;
}

void node_agent::prepare(const proto::run_order& order) {
  stop_serving();
  order_ = order;
  proto::node_ready facts;
  auto made = options_.make(order);
  if (made) {
    run_.emplace(std::move(*made));
    facts = run_->facts;
  } else {
    facts.status = core::result<void>{made.error()};
  }
  facts.run = order.run;
  facts.node = order.node;
  self_->send(head_, std::move(facts));
}

void node_agent::serve(const proto::serve_run& orders) {
  if (!run_ || orders.run != order_.run) return;
  run_->settings->cost_model = {orders.prefill_base_s, orders.prefill_token_s, orders.prefill_pair_s};
  idle_actors_ = plane_.system().registry().running();
  pauses_before_ = plane_.pauses();
  auto supervisor = self_->spawn(node_supervisor, run_->settings, run_->node,
                                 caf::actor_cast<proto::scheduler_actor>(orders.scheduler),
                                 caf::actor_cast<proto::directory_actor>(orders.directory));
  supervisor_ = caf::actor_cast<caf::actor>(supervisor);
  self_->monitor(supervisor_);
}

void node_agent::end_actors() {
  if (!supervisor_) return;
  self_->demonitor(supervisor_);
  stop_actor(supervisor_);
  supervisor_ = nullptr;
  await_own_actors();
}

/// What is still held is told only where it was waited for: else writes may just be under way.
void node_agent::report(core::duration settle) {
  auto& settings = *run_->settings;
  if (settings.faults) settings.faults->held().end_all();
  std::vector<std::uint64_t> held;
  if (settings.usage && settle.count() > 0) {
    auto left = settings.usage->await_idle(*settings.clock, settle);
    held.assign(left.begin(), left.end());
    core::log_event(left == core::resource_usage{} ? core::log_level::info : core::log_level::warn,
                    "run_settled",
                    {{"node", node_},
                     {"run", order_.run},
                     {"buffer_slots", left[static_cast<std::size_t>(core::resource::buffer_slots)]},
                     {"hbm_blocks", left[static_cast<std::size_t>(core::resource::hbm_blocks)]}});
  }
  end_actors();
  auto counted = count(order_, *run_->node, settings.faults);
  counted.held = std::move(held);
  auto pauses = plane_.pauses().since(pauses_before_);
  counted.pauses = pauses.count;
  counted.paused_ns = static_cast<std::uint64_t>(pauses.total.count());
  self_->send(head_, std::move(counted));
}

void node_agent::stop_serving(core::duration settle) {
  if (run_) report(settle);
  run_.reset();
}

void node_agent::meet(const proto::meet_node& other) {
  auto agent = plane_.find_agent(other.address.host, other.address.port);
  if (agent) {
    met_.push_back(*agent);
    core::log_event(core::log_level::info, "node_met", {{"node", node_}, {"other", other.node}});
  } else {
    core::log_event(core::log_level::warn, "node_met_through_head_only",
                    {{"node", node_}, {"other", other.node}, {"why", agent.error().text}});
  }
}

void node_agent::watch(const caf::down_msg& down) {
  auto why = plane_.system().render(down.reason);
  if (down.source == head_.address()) {
    failure_ = core::error{core::errc::disconnected, "the head of the cluster is gone: " + why};
  } else if (supervisor_ && down.source == supervisor_.address()) {
    failure_ = core::error{core::errc::io, "this node failed: " + why};
    supervisor_ = nullptr;
    await_own_actors();
  }
}

core::result<void> node_agent::serve_until_dismissed() {
  while (!dismissed_ && !failure_) {
    self_->receive(
        [&](const proto::run_order& order) { prepare(order); },
        [&](const proto::serve_run& orders) { serve(orders); },
        [&](const proto::run_over& order) { stop_serving(std::chrono::milliseconds{order.settle_ms}); },
        [&](const proto::meet_node& other) { meet(other); },
        [&](const proto::drain_node& order) {
          self_->request(head_, join_answer_deadline, order)
              .receive(
                  [](const outcome& answer) {
                    if (!answer.ok) cannot_drain(answer.text);
                  },
                  [&](caf::error& e) { cannot_drain(plane_.system().render(e)); });
        },
        [&](const proto::leave_cluster& order) {
          core::log_event(core::log_level::info, "node_leaves", {{"node", node_}, {"why", order.why}});
          dismissed_ = true;
          if (order.refused) failure_ = core::error{core::errc::refused, order.why};
        },
        [&](const caf::down_msg& down) { watch(down); });
  }
  if (failure_) {
    if (run_) report({});
    return *failure_;
  }
  stop_serving();
  return {};
}

} // namespace

core::result<void> host_node(control_plane& plane, const node_host_options& options) {
  node_agent agent{plane, options};
  if (auto joined = agent.join(); !joined) return joined;
  return agent.serve_until_dismissed();
}

} // namespace dualpath::actors

#include "apps/node_process.hpp"

#include "actors/node_host.hpp"
#include "apps/cluster_devices.hpp"
#include "apps/cluster_sizes.hpp"
#include "apps/command.hpp"
#include "apps/faulty_devices.hpp"
#include "apps/interrupts.hpp"
#include "apps/logging.hpp"
#include "apps/run_settings.hpp"
#include "core/fault_plan.hpp"
#include "core/running_clock.hpp"
#include "net/tls_identity.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace dualpath::apps {

namespace {

/// Makes the devices of the node for one run after another; a model is loaded once.
class node_factory {
public:
  node_factory(const raw_run_options& raw, std::string net_device, std::string secret)
      : raw_{raw}, net_device_{std::move(net_device)}, secret_{std::move(secret)} {}
  core::result<actors::node_run> make(const proto::run_order& order);

private:
  core::result<run_options> options_for(const proto::run_order& order) const;
  core::result<void> load(const run_options& options, const proto::run_order& order);

  const raw_run_options& raw_;
  std::string net_device_, secret_;
  std::string model_;
  std::optional<compute_source> source_;
};

core::result<run_options> node_factory::options_for(const proto::run_order& order) const {
  raw_run_options merged;
  for (auto& setting : order.settings) merged.given[setting.name] = setting.values;
  auto own = node_settings(raw_);
  if (!own) return own.error();
  for (auto& [name, values] : *own) merged.given[name] = values;
  auto options = resolve_for_node(merged);
  if (!options) return options;
  options->net_device = net_device_;
  options->data_plane_secret = secret_;
  options->cluster = {order.prefill_engines_here / options->gpus_per_node,
                      order.decode_engines_here / options->gpus_per_node};
  auto local = raw_.given.find("store");
  options->store = local != raw_.given.end() ? local->second.front() : order.store;
  return options;
}

core::result<void> node_factory::load(const run_options& options, const proto::run_order& order) {
  if (source_ && model_ == options.model) return {};
  auto here = options;
  auto processes =
      (order.prefill_engines_here + order.decode_engines_here) / std::max(1u, options.gpus_per_node);
  if (here.compute_threads == 0)
    here.compute_threads = std::max(1u, std::thread::hardware_concurrency() / std::max(1u, processes));
  auto source = open_compute_source(here);
  if (!source) return source.error();
  source_.emplace(std::move(*source));
  model_ = options.model;
  return {};
}

core::result<storage::store_spec> store_of(const run_options& options) {
  if (options.store.empty()) return storage::store_spec{};
  auto spec = storage::parse_store_spec(options.store);
  if (!spec) return spec.error();
  std::error_code ignored;
  if (spec->what == storage::store_spec::kind::files && !std::filesystem::is_directory(spec->path, ignored))
    return core::error{core::errc::invalid_argument,
                       "the block store '" + spec->path.string()
                           + "' is not here; give --store a folder on a file system that all nodes share"};
  return spec;
}

/// What outlives the settings that point to it.
struct node_context {
  core::running_clock clock;
  core::fault_plan faults;
  core::usage_gauge usage;
};

core::result<actors::node_run> node_factory::make(const proto::run_order& order) {
  auto options = options_for(order);
  if (!options) return options.error();
  if (auto loaded = load(*options, order); !loaded) return loaded.error();
  auto spec = store_of(*options);
  if (!spec) return spec.error();
  auto faults = core::fault_plan::parse_for(options->inject, order.node);
  if (!faults) return faults.error();
  auto context = std::make_shared<node_context>();
  context->faults = std::move(*faults);
  auto probe = make_compute(*options, *source_, context->clock);
  if (!probe) return probe.error();
  core::trace_stats shape;
  shape.max_total = order.longest_tokens;
  shape.trajectories = order.sessions;
  auto sizes = sizes_for(*options, **probe, shape);
  if (!sizes) return sizes.error();
  auto node = make_node(*options, *source_, context->clock, *sizes, *spec, nullptr,
                        {order.node, order.role, order.first_engine, {}});
  if (!node) return node.error();
  actors::node_run made;
  made.settings = base_settings(*options, context->clock, **probe);
  made.settings->faults = &context->faults;
  if (!context->faults.empty()) made.settings->usage = &context->usage;
  made.keep_alive = context;
  inject_device_faults({*node}, context->faults, *made.settings);
  made.node = std::move(*node);
  made.facts = facts_of(**probe);
  return made;
}

/// A wish to leave, which may come before there is a cluster to leave. Thread-safe.
class drain_request {
public:
  void request() {
    std::lock_guard lock{mutex_};
    wanted_ = true;
    if (drain_) drain_();
  }
  void joined(std::function<void()> drain) {
    std::lock_guard lock{mutex_};
    drain_ = std::move(drain);
    if (wanted_) drain_();
  }

private:
  std::mutex mutex_;
  std::function<void()> drain_;
  bool wanted_ = false;
};

} // namespace

int serve_as_node(const raw_run_options& raw, const net::head_contact& head, const node_identity& who) {
  auto own = resolve_for_node(raw);
  if (!own) return report_error(own.error());
  if (auto logs = set_up_logging(own->log); !logs) return report_error(logs.error());
  // Made first: threads that start later leave signals to it.
  drain_request leaving;
  interrupts on_signal{[&](int signal, unsigned count) {
    if (count > 1) std::_Exit(128 + signal);
    leaving.request();
  }};
  auto identity = net::tls_identity::derive(head.secret);
  if (!identity) return report_error(identity.error());
  actors::control_plane plane{{.certificate_path = identity->certificate_path(),
                               .key_path = identity->key_path(),
                               .peer_timeout = own->peer_timeout}};
  auto address = who.listen_host.empty() ? net::address_towards(head.host, head.port) : who.listen_host;
  node_factory factory{raw, net::device_of(address), head.secret};
  actors::node_host_options options;
  options.head_host = head.host;
  options.head_port = head.port;
  options.listen_host = options.known_as = address;
  options.request.program = "dualpath";
  options.request.host = net::machine_name();
  options.request.rank = who.rank;
  options.request.role = who.role;
  options.make = [&](const proto::run_order& order) { return factory.make(order); };
  options.on_joined = [&](core::node_id, std::function<void()> drain) { leaving.joined(std::move(drain)); };
  auto served = actors::host_node(plane, options);
  leaving.joined([] {});
  return served ? exit_ok : report_error(served.error());
}

} // namespace dualpath::apps

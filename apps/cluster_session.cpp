#include "apps/cluster_session.hpp"

#include "actors/membership.hpp"
#include "apps/command.hpp"
#include "apps/node_process.hpp"
#include "core/units.hpp"

#include <iostream>
#include <utility>

namespace dualpath::apps {

namespace {

constexpr core::duration launched_nodes_deadline = std::chrono::seconds{60};

core::result<void> check_size(const run_options& options, const net::launch_info& launch) {
  if (options.head_only)
    return core::error{core::errc::invalid_argument,
                       "under " + launch.launcher
                           + " rank 0 is the first prefill node; --head-only and "
                             "--cluster 0P0D are for nodes that join by hand"};
  if (launch.size == options.cluster.nodes()) return {};
  return core::error{core::errc::invalid_argument, launch.launcher + " started " + std::to_string(launch.size)
                                                       + " processes, --cluster " + to_string(options.cluster)
                                                       + " has " + std::to_string(options.cluster.nodes())
                                                       + " nodes; start one process a node"};
}

void warn_of_launcher(const net::launch_info& launch) {
  if (launch.survives_a_death) return;
  std::cerr << "dualpath: mpirun runs without --enable-recovery: the death of one node will end the whole "
               "job\n";
}

/// A launcher has started all nodes, and one that is not there soon has failed.
core::duration time_to_start(const run_options& options) {
  return options.join_timeout > core::duration{0} ? options.join_timeout : launched_nodes_deadline;
}

/// "rank 2 (decode) did not join", of all that are missing.
std::string say_missing(const proto::absent_nodes& missing, bool launched) {
  std::string names;
  for (std::size_t i = 0; i < missing.nodes.size(); ++i)
    names += (i == 0 ? "" : ", ") + std::to_string(missing.nodes[i].value) + " ("
             + core::to_string(missing.roles[i]) + ")";
  return std::string{launched ? "rank" : "node"} + (missing.nodes.size() == 1 ? " " : "s ") + names
         + " did not join";
}

core::error too_late(const std::string& who, core::duration limit) {
  return {core::errc::timed_out,
          who + " within " + core::format_duration(limit) + " (--join-timeout); see what the process said"};
}

core::error missing_at_start(const run_options& options, const net::pmix_job& job) {
  proto::absent_nodes missing;
  for (auto rank : job.missing_ranks()) {
    missing.nodes.push_back(core::node_id{rank});
    missing.roles.push_back(rank < options.cluster.prefill_nodes ? core::engine_role::prefill
                                                                 : core::engine_role::decode);
  }
  return too_late(say_missing(missing, true), time_to_start(options));
}

} // namespace

cluster_session::cluster_session() : plane_{std::make_unique<actors::control_plane>()} {}

core::result<net::head_contact> cluster_session::listen(const run_options& options, const std::string& secret,
                                                        const net::endpoint_name& where) {
  auto identity = net::tls_identity::derive(secret);
  if (!identity) return identity.error();
  identity_.emplace(std::move(*identity));
  secret_ = secret;
  plane_ = std::make_unique<actors::control_plane>(
      actors::control_options{.certificate_path = identity_->certificate_path(),
                              .key_path = identity_->key_path(),
                              .peer_timeout = options.peer_timeout});
  actors::membership_plan plan;
  plan.prefill_nodes = options.cluster.prefill_nodes;
  plan.decode_nodes = options.cluster.decode_nodes;
  plan.head_serves = !options.head_only;
  plan.machine = net::machine_name();
  plan.roles = options.node_roles;
  membership_ = plane_->system().spawn<caf::hidden>(actors::membership, plan);
  auto port = plane_->publish(membership_, where.host, where.port);
  if (!port) return port.error();
  net::head_contact contact;
  contact.host = where.host.empty() ? net::machine_name() : where.host;
  contact.port = *port;
  contact.secret = secret;
  return contact;
}

core::result<void> cluster_session::await_nodes(const run_options& options, const net::head_contact& contact,
                                                const notice& on_wait) {
  auto wanted = options.cluster.nodes() + (options.head_only ? 1 : 0);
  if (on_wait)
    on_wait("waiting at " + contact.host + ":" + std::to_string(contact.port) + " for "
            + (wanted > 1 ? std::to_string(wanted - 1) + " more nodes" : "a prefill and a decode node"));
  // People join nodes when they like.
  auto limit = on_wait ? options.join_timeout : time_to_start(options);
  caf::scoped_actor self{plane_->system(), true};
  auto there = false;
  self->request(membership_, limit == core::duration{0} ? caf::duration{caf::infinite} : caf::duration{limit},
                proto::await_nodes{wanted})
      .receive([&](std::uint32_t) { there = true; }, [](const caf::error&) {});
  if (there) return {};
  auto who = std::string{"not all nodes joined"};
  self->request(membership_, std::chrono::seconds{10}, proto::name_absent{})
      .receive([&](const proto::absent_nodes& missing) { who = say_missing(missing, !on_wait); },
               [](const caf::error&) {});
  return too_late(who, limit);
}

core::result<std::unique_ptr<cluster_session>> cluster_session::open(const run_options& options,
                                                                     const option_values& settings,
                                                                     const net::launch_info& launch,
                                                                     const notice& on_wait) {
  auto session = std::make_unique<cluster_session>();
  session->settings_ = settings;
  if (launch.size > 1) {
    if (auto fits = check_size(options, launch); !fits) return fits.error();
    warn_of_launcher(launch);
    auto job = net::pmix_job::open();
    if (!job) return job.error();
    auto here = job->on_one_machine();
    if (!here) session->net_device_.clear();
    auto secret = net::make_cluster_secret();
    if (!secret) return secret.error();
    auto contact = session->listen(options, *secret, {here ? "127.0.0.1" : std::string{}, 0});
    net::head_contact told;
    if (contact)
      told = *contact;
    else
      told.failure = contact.error().text;
    if (auto met = job->exchange(told, time_to_start(options)); !met)
      return met.error().code == core::errc::timed_out ? missing_at_start(options, *job) : met.error();
    if (!contact) return contact.error();
    if (auto there = session->await_nodes(options, *contact, {}); !there) return there.error();
  } else if (!options.listen.empty()) {
    if (options.secret_file.empty())
      return core::error{core::errc::invalid_argument,
                         "--listen needs --secret-file: nodes prove that they know what it holds; make one "
                         "with: openssl rand -hex 32 > secret && chmod 600 secret"};
    auto secret = net::read_cluster_secret(options.secret_file);
    if (!secret) return secret.error();
    auto where = net::parse_endpoint(options.listen, true);
    if (!where) return where.error();
    session->net_device_ = net::device_of(where->host);
    auto contact = session->listen(options, *secret, *where);
    if (!contact) return contact.error();
    session->join_address_ = contact->host + ":" + std::to_string(contact->port);
    if (auto there = session->await_nodes(options, *contact, on_wait); !there) return there.error();
  } else {
    // Its data plane listens too, for this process alone.
    auto secret = net::make_cluster_secret();
    if (!secret) return secret.error();
    session->secret_ = *secret;
  }
  return session;
}

cluster_session::~cluster_session() {
  if (!membership_) return;
  // Alive until every node has hung up, or the deadline has passed: then whoever is left sees it go.
  caf::scoped_actor self{plane_->system(), true};
  self->request(membership_, std::chrono::seconds{10}, proto::leave_cluster{"the command is over"})
      .receive([](const proto::outcome&) {}, [](const caf::error&) {});
  caf::anon_send_exit(membership_, caf::exit_reason::user_shutdown);
  membership_ = nullptr;
}

core::result<std::unique_ptr<cluster_session>>
open_session(const run_options& options, const raw_run_options& raw, const net::launch_info& launch) {
  auto settings = node_settings(raw);
  if (!settings) return settings.error();
  return cluster_session::open(options, *settings, launch, [](const std::string& text) {
    std::cerr << "dualpath: " << text << std::endl;
  });
}

int serve_launched_node(const raw_run_options& raw) {
  auto options = resolve(raw);
  // Rank 0 says why, and fails; were we to fail first, the launcher would end it before it can.
  if (!options || !check_size(*options, net::detect_launch())) return exit_ok;
  auto job = net::pmix_job::open();
  if (!job) return report_error(job.error());
  node_identity who;
  who.rank = job->rank();
  auto contact = job->exchange({}, time_to_start(*options));
  if (!contact && contact.error().code == core::errc::timed_out) return exit_ok; // rank 0 says who is missing
  if (!contact) return report_error(contact.error());
  if (!contact->failure.empty()) return exit_ok;
  return serve_as_node(raw, *contact, who);
}

} // namespace dualpath::apps

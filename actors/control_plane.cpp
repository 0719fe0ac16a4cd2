#include "actors/control_plane.hpp"

#include "actors/peer_watch.hpp"

#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

namespace dualpath::actors {

namespace {

/// Of CAF's own judgement of silence, which the peer watch replaces.
constexpr auto practically_never = std::chrono::hours{24 * 365};

caf::timespan timespan_of(core::duration d) { return std::chrono::duration_cast<caf::timespan>(d); }

struct system_config : caf::actor_system_config {
  explicit system_config(const control_options& options) {
    add_message_types<caf::id_block::dualpath>();
    add_message_types<caf::id_block::dualpath_membership>();
    // Sharing wakes an idle worker in some 10 µs; stealing polls with sleeps of 50 µs.
    set("scheduler.policy", caf::atom("sharing"));
    // An engine that messages itself must not starve its worker.
    set("scheduler.max-throughput", 50);
    set("logger.console", caf::atom("none"));
    if (options.certificate_path.empty()) return;
    load<caf::io::middleman>();
    load<caf::openssl::manager>();
    openssl_certificate = openssl_cafile = options.certificate_path;
    openssl_key = options.key_path;
    set("middleman.workers", 0);
    set("middleman.heartbeat-interval", timespan_of(options.heartbeat));
    set("middleman.connection-timeout", timespan_of(practically_never));
  }
};

core::error connect_error(const std::string& host, std::uint16_t port, const std::string& why) {
  auto where = host + ":" + std::to_string(port);
  // TLS tells neither side more than that the other hung up.
  if (why.find("disconnect_during_handshake") != std::string::npos)
    return {core::errc::refused, where
                                     + " closed the connection during the handshake: it holds another "
                                       "cluster secret, or is no DualPath process"};
  return {core::errc::disconnected, "cannot connect to " + where + ": " + why};
}

template <class Handle>
core::result<std::uint16_t> listen(const Handle& whom, const std::string& host, std::uint16_t port) {
  auto bound = caf::openssl::publish(whom, port, host.empty() ? nullptr : host.c_str(), true);
  if (bound) return *bound;
  return core::error{core::errc::io, "cannot listen on " + host + ":" + std::to_string(port) + ": "
                                         + whom.home_system().render(bound.error())
                                         + "; is the port taken, or the address not of this machine?"};
}

} // namespace

struct control_plane::parts {
  explicit parts(const control_options& options)
      : config{options}, system{config}, watch{system, options.peer_timeout, options.heartbeat} {}
  system_config config;
  caf::actor_system system;
  peer_watch watch;
};

control_plane::control_plane(const control_options& options) : parts_{std::make_unique<parts>(options)} {}
control_plane::~control_plane() = default;

caf::actor_system& control_plane::system() { return parts_->system; }
core::pauses control_plane::pauses() const { return parts_->watch.pauses(); }

core::result<std::uint16_t> control_plane::publish(const proto::membership_actor& whom,
                                                   const std::string& host, std::uint16_t port) {
  return listen(whom, host, port);
}

core::result<std::uint16_t> control_plane::publish(const caf::actor& whom, const std::string& host,
                                                   std::uint16_t port) {
  return listen(whom, host, port);
}

core::result<proto::membership_actor> control_plane::find_head(const std::string& host, std::uint16_t port) {
  auto found = caf::openssl::remote_actor<proto::membership_actor>(system(), host, port);
  if (!found) return connect_error(host, port, system().render(found.error()));
  return *found;
}

core::result<caf::actor> control_plane::find_agent(const std::string& host, std::uint16_t port) {
  auto found = caf::openssl::remote_actor(system(), host, port);
  if (!found) return connect_error(host, port, system().render(found.error()));
  return *found;
}

} // namespace dualpath::actors

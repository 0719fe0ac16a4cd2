// The actor system of a process that belongs to a cluster, and its connections to the other processes: CAF
// over TLS, both ends holding the certificate that follows from the cluster's secret (net/tls_identity.hpp).
// A peer that cannot prove the secret gets no message read; hostile bytes close their own connection.
// A peer that has frozen sends no heartbeats and is cut, unless it was this process that stood still
// (actors/peer_watch.hpp). A request to a peer that dies is never answered by CAF: whoever asks
// sets a deadline, and whoever depends on a peer watches it.
#pragma once

#include "core/clock.hpp"
#include "core/pauses.hpp"
#include "core/result.hpp"
#include "proto/interfaces.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace dualpath::actors {

struct control_options {
  std::string certificate_path, key_path; ///< PEM; "": this process talks to no other
  core::duration heartbeat = std::chrono::milliseconds{250};
  core::duration peer_timeout = std::chrono::seconds{5}; ///< of silence, while this process runs
};

class control_plane {
public:
  /// A system for this process alone where no certificate is given.
  explicit control_plane(const control_options& options = {});
  ~control_plane();
  control_plane(const control_plane&) = delete;

  caf::actor_system& system();
  /// Of this process, since the start of the control plane. Thread-safe.
  core::pauses pauses() const;

  /// Lets peers reach `whom` at host:port; port 0: a free one, returned. Errors: io.
  core::result<std::uint16_t> publish(const proto::membership_actor& whom, const std::string& host,
                                      std::uint16_t port);
  core::result<std::uint16_t> publish(const caf::actor& whom, const std::string& host, std::uint16_t port);
  /// Blocks. Errors: refused (the peer does not hold the secret), disconnected.
  core::result<proto::membership_actor> find_head(const std::string& host, std::uint16_t port);
  core::result<caf::actor> find_agent(const std::string& host, std::uint16_t port);

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace dualpath::actors

// The processes behind a command: this one alone, or the head of a cluster whose other nodes were started by
// mpirun or srun, or join by hand. Lives as long as the command; each run over it is ordered anew.
#pragma once

#include "actors/control_plane.hpp"
#include "apps/options.hpp"
#include "core/result.hpp"
#include "net/bootstrap.hpp"
#include "net/tls_identity.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace dualpath::apps {

class cluster_session {
public:
  /// Called with what the command waits for, while it does.
  using notice = std::function<void(const std::string&)>;

  /// A cluster within this process.
  cluster_session();
  /// What the launcher, --listen and --secret-file say; blocks until all nodes of --cluster have joined.
  static core::result<std::unique_ptr<cluster_session>> open(const run_options& options,
                                                             const option_values& settings,
                                                             const net::launch_info& launch,
                                                             const notice& on_wait);
  /// Lets the nodes go.
  ~cluster_session();
  cluster_session(const cluster_session&) = delete;

  actors::control_plane& plane() { return *plane_; }
  bool spans_processes() const { return membership_ != nullptr; }
  /// Where the data plane of this process listens; "": everywhere.
  const std::string& net_device() const { return net_device_; }
  /// That the data plane is guarded with.
  const std::string& secret() const { return secret_; }
  /// Where nodes may join by hand; "": none can.
  const std::string& join_address() const { return join_address_; }
  const proto::membership_actor& membership() const { return membership_; }
  const option_values& settings() const { return settings_; }
  std::uint64_t next_run() { return ++run_; }

private:
  core::result<net::head_contact> listen(const run_options& options, const std::string& secret,
                                         const net::endpoint_name& where);
  core::result<void> await_nodes(const run_options& options, const net::head_contact& contact,
                                 const notice& on_wait);

  std::optional<net::tls_identity> identity_;
  std::unique_ptr<actors::control_plane> plane_;
  proto::membership_actor membership_;
  option_values settings_;
  std::string net_device_ = "lo", secret_, join_address_;
  std::uint64_t run_ = 0;
};

/// The session of a command, with what it waits for on standard error.
core::result<std::unique_ptr<cluster_session>>
open_session(const run_options& options, const raw_run_options& raw, const net::launch_info& launch);

/// A process that a launcher started as another rank than 0: serves as a node until it is let go.
int serve_launched_node(const raw_run_options& raw);

} // namespace dualpath::apps

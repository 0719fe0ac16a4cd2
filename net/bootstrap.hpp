// How the processes that a launcher starts find each other: mpirun and srun offer PMIx, through which rank 0
// tells the others where it listens and the cluster's secret. PMIx is left again at once, so that the death
// of one rank does not take the job down (docs/guides/launch.md says which launcher options that needs).
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::net {

/// What the environment of this process says about its launcher; size 1 without one.
struct launch_info {
  std::uint32_t rank = 0, size = 1;
  std::string launcher;         ///< "mpirun", "srun" or "" (something else that speaks PMIx)
  bool survives_a_death = true; ///< false: the launcher kills the job when one rank dies
};
launch_info detect_launch();

/// What rank 0 tells the others; `failure` says why there is nothing to join.
struct head_contact {
  std::string host;
  std::uint16_t port = 0;
  std::string secret, failure;
};

/// A job under PMIx. Every rank opens it and exchanges once; closing is part of the exchange.
class pmix_job {
public:
  /// Errors: unsupported, where no PMIx server answers.
  static core::result<pmix_job> open();
  pmix_job(pmix_job&& other) noexcept;
  pmix_job& operator=(pmix_job&&) = delete;
  ~pmix_job();

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  /// Whether all ranks run on this machine.
  bool on_one_machine() const { return local_size_ == size_; }

  /// Blocks until every rank has called it, or `limit` has passed, in whole seconds. `own` counts on rank 0
  /// only. Errors: timed_out, where a rank has not called it; io, with what PMIx said.
  core::result<head_contact> exchange(const head_contact& own, core::duration limit);
  /// After an exchange that timed out: the ranks that have not called it.
  std::vector<std::uint32_t> missing_ranks() const;

private:
  pmix_job() = default;
  std::string space_; ///< PMIx's name of the job
  std::uint32_t rank_ = 0, size_ = 1, local_size_ = 1;
  bool open_ = false;
};

/// "HOST:PORT"; port 0 only where `any_port`.
struct endpoint_name {
  std::string host;
  std::uint16_t port = 0;
};
core::result<endpoint_name> parse_endpoint(const std::string& text, bool any_port = false);
/// The network interface that has this host's address, such as eth0; "" where none here does.
std::string device_of(const std::string& host);
/// Our address on the way to that host; "" where there is no way.
std::string address_towards(const std::string& host, std::uint16_t port);
/// The name by which other machines know this one.
std::string machine_name();

} // namespace dualpath::net

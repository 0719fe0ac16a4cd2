// The simulated twin of the UCX fabric: fabrics of one process joined by a network of modelled bandwidth and
// latency, over whatever clock it is given. Memory is real: bytes are copied at the modelled time of
// completion. Every fault is drawn from the seed, so a run that broke can be run again.
//
// Model: each fabric has one sending and one receiving side of `bytes_per_second`; transfers pass in order of
// submission, one after another on each side they use; a put or message takes one latency, a get two.
// Completions and handlers run on the clock's thread. A sim_network may be destroyed before its fabrics.
#pragma once

#include "net/fabric.hpp"

#include <memory>

namespace dualpath::net {

struct sim_faults {
  double drop = 0;  ///< share of operations that never happen: they end at their deadline
  double fail = 0;  ///< share that fails as disconnected
  double delay = 0; ///< share that takes longer, by up to max_delay
  core::duration max_delay = std::chrono::milliseconds{10};
};

struct sim_network_options {
  core::clock* clock = nullptr; ///< outlives the network and its fabrics
  double bytes_per_second = 50e9;
  core::duration latency = std::chrono::microseconds{2};
  core::duration detection = std::chrono::milliseconds{1}; ///< from a death to the peers knowing
  std::uint64_t seed = 1;
  sim_faults faults{};
};

class sim_core;

class sim_network {
public:
  explicit sim_network(const sim_network_options& options);
  ~sim_network();
  sim_network(const sim_network&) = delete;
  sim_network& operator=(const sim_network&) = delete;

  /// Not to be destroyed from one of its own completions or handlers. self.instance 0: the next free one.
  std::unique_ptr<fabric> open(identity self);

  void set_faults(const sim_faults& faults);
  /// The process of that instance dies: its calls fail, its peers see it go down after `detection`.
  void kill(std::uint64_t instance);
  /// Its process stands still: what involves it waits for its deadline, until it goes on.
  void pause(std::uint64_t instance, bool paused);
  /// Modelled speed of one fabric's network, e.g. of a degraded link.
  void set_bandwidth(std::uint64_t instance, double bytes_per_second);

private:
  std::shared_ptr<sim_core> core_;
};

} // namespace dualpath::net

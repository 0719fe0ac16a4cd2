// Supervises one GPU: its engine, compute NIC and buffer pool live and die together (one for all). When one
// of them crashes, the others are stopped, the devices are fenced — no transfer, copy, computation or storage
// operation touches the engine's memory any more — and only then is the next incarnation started over the
// same devices. Above the restart budget the supervisor itself fails and its parent decides.
#pragma once

#include "actors/children.hpp"
#include "actors/devices.hpp"
#include "actors/settings.hpp"
#include "proto/interfaces.hpp"

#include <deque>

namespace dualpath::actors {

struct engine_supervisor_state {
  using self_pointer = proto::engine_supervisor_actor::stateful_pointer<engine_supervisor_state>;

  static inline const char* name = "engine_sup";
  self_pointer self = nullptr;
  settings_ptr settings;
  devices_ptr devices;
  std::shared_ptr<core::node_counters> counters;
  proto::scheduler_actor scheduler;
  proto::storage_nic_actor storage_nic;

  core::incarnation incarnation;
  std::shared_ptr<child_table> children;
  bool restarting = false;
  int fences_open = 0; ///< devices that have not yet said they are idle
  std::deque<core::instant> restarts;

  void start_children();
  void child_down(const caf::down_msg& down);
  void fence_devices();
  void device_idle();
};

proto::engine_supervisor_actor::behavior_type engine_supervisor(engine_supervisor_state::self_pointer self,
                                                                settings_ptr settings, devices_ptr devices,
                                                                std::shared_ptr<core::node_counters> counters,
                                                                proto::scheduler_actor scheduler,
                                                                proto::storage_nic_actor storage_nic);

} // namespace dualpath::actors

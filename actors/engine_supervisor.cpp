#include "actors/engine_supervisor.hpp"

#include "actors/buffer_pool.hpp"
#include "actors/compute_nic.hpp"
#include "actors/decode_engine.hpp"
#include "actors/device_bytes.hpp"
#include "actors/prefill_engine.hpp"
#include "core/log.hpp"

namespace dualpath::actors {

void engine_supervisor_state::start_children() {
  auto slots = static_cast<std::uint32_t>(devices->pool.bytes.size() / settings->slot_bytes);
  if (devices->role == core::engine_role::decode) slots -= settings->write_slots;
  auto pool = self->spawn(buffer_pool, slots, settings->usage);
  auto nic = self->spawn(compute_nic, settings, devices, counters);
  proto::engine_up up;
  up.engine = devices->engine;
  up.node = devices->node;
  up.role = devices->role;
  up.incarnation = incarnation;
  up.fabric_address = from_bytes(devices->fabric->address());
  auto exported = devices->fabric->export_region(devices->pool.id);
  if (!exported) {
    self->quit(caf::make_error(caf::sec::runtime_error, exported.error().text));
    return;
  }
  up.pool_export = from_bytes(*exported);
  caf::actor engine;
  if (devices->role == core::engine_role::prefill) {
    engine = caf::actor_cast<caf::actor>(self->spawn(prefill_engine, settings, devices, scheduler,
                                                     storage_nic, nic, pool, incarnation, counters));
  } else {
    up.hbm_tokens =
        devices->hbm->bytes().size() / settings->layout.full_block_bytes() * settings->layout.block_tokens;
    engine = caf::actor_cast<caf::actor>(self->spawn(decode_engine, settings, devices, scheduler, storage_nic,
                                                     nic, pool, incarnation, counters));
  }
  up.actor = caf::actor_cast<caf::strong_actor_ptr>(engine);
  children->adopt(self, pool, "buffer_pool");
  children->adopt(self, nic, "compute_nic");
  children->adopt(self, engine, "engine");
  self->send(scheduler, std::move(up));
}

void engine_supervisor_state::child_down(const caf::down_msg& down) {
  auto child = children->remove(down.source);
  if (!child) return;
  if (!restarting) {
    restarting = true;
    auto why = *child + ": " + self->home_system().render(down.reason);
    core::log_event(
        core::log_level::warn, "engine_lost_a_child",
        {{"node", devices->node}, {"engine", devices->engine}, {"incarnation", incarnation}, {"why", why}});
    self->send(scheduler, proto::engine_down{devices->engine, incarnation, why});
    children->stop_all();
  }
  if (children->empty()) fence_devices();
}

void engine_supervisor_state::fence_devices() {
  auto me = caf::actor_cast<proto::engine_supervisor_actor>(self);
  fences_open = 3;
  devices->computing.when_empty([me] { caf::anon_send(me, proto::devices_idle{}); });
  // The others need not wait for a device that hangs: no transfer of ours touches their memory any more.
  devices->fabric->quiesce([me, to = scheduler, fenced = proto::engine_fenced{devices->engine, incarnation}] {
    caf::anon_send(to, fenced);
    caf::anon_send(me, proto::devices_idle{});
  });
  self->request(storage_nic, caf::infinite, proto::drain_engine{devices->engine})
      .then([this](const proto::devices_idle&) { device_idle(); });
}

void engine_supervisor_state::device_idle() {
  if (--fences_open > 0) return;
  auto now = settings->clock->now();
  while (!restarts.empty() && now - restarts.front() > settings->restart_window) restarts.pop_front();
  restarts.push_back(now);
  if (restarts.size() > settings->restart_budget) {
    self->quit(caf::make_error(caf::sec::runtime_error,
                               "engine " + std::to_string(devices->engine.value) + " crashed "
                                   + std::to_string(restarts.size()) + " times in "
                                   + std::to_string(core::to_seconds(settings->restart_window)) + " s"));
    return;
  }
  restarting = false;
  incarnation.value += 1;
  counters->engine_restarts += 1;
  start_children();
}

proto::engine_supervisor_actor::behavior_type engine_supervisor(engine_supervisor_state::self_pointer self,
                                                                settings_ptr settings, devices_ptr devices,
                                                                std::shared_ptr<core::node_counters> counters,
                                                                proto::scheduler_actor scheduler,
                                                                proto::storage_nic_actor storage_nic) {
  auto& state = self->state;
  state.self = self;
  state.settings = std::move(settings);
  state.devices = std::move(devices);
  state.counters = std::move(counters);
  state.scheduler = std::move(scheduler);
  state.storage_nic = std::move(storage_nic);
  self->set_down_handler([self](caf::down_msg& down) { self->state.child_down(down); });
  state.children = make_child_table(self);
  state.start_children();
  return {
      [self](const proto::devices_idle&) { self->state.device_idle(); },
  };
}

} // namespace dualpath::actors

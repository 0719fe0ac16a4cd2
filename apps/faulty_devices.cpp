#include "apps/faulty_devices.hpp"

#include "kernels/faulty_device.hpp"
#include "net/faulty_fabric.hpp"
#include "storage/faulty_store.hpp"

namespace dualpath::apps {

void inject_device_faults(const node_list& nodes, const core::fault_plan& plan,
                          const actors::cluster_settings& settings) {
  if (!plan.touches_devices()) return;
  auto& clock = *settings.clock;
  auto beyond = [](core::duration deadline) { return deadline * 3 / 2; };
  for (auto& node : nodes) {
    if (node->store)
      node->store =
          storage::make_faulty_store(node->store, plan, node->role, clock, beyond(settings.deadline));
    for (auto& engine : node->engines) {
      engine->fabric = net::make_faulty_fabric(engine->fabric, plan, clock, settings.transfer_deadline / 2);
      engine->compute =
          kernels::make_faulty_device(engine->compute, plan, node->role, clock,
                                      {beyond(settings.compute_deadline), beyond(settings.deadline)});
    }
  }
}

} // namespace dualpath::apps

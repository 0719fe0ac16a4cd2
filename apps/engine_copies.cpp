#include "apps/engine_copies.hpp"

#include "apps/looped_device.hpp"

#include <utility>

namespace dualpath::apps {

namespace {

net::verbs_copy_options verbs_options(const copy_choice& choice, const core::qos_config& qos) {
  net::verbs_copy_options options;
  options.device = choice.rdma_device;
  if (auto* kv = core::find_class(qos, "kv")) {
    options.service_level = kv->service_level;
    options.ip_traffic_class = kv->ip_traffic_class();
  }
  return options;
}

} // namespace

core::result<engine_copies> choose_copies(const copy_choice& choice, const core::qos_config& qos,
                                          std::unique_ptr<kernels::compute_device> device,
                                          std::span<const std::span<std::byte>> memory,
                                          const verbs_opener& open) {
  auto own = [&](std::string reason) {
    return engine_copies{std::move(device), "the device", std::move(reason)};
  };
  if (choice.mode == copy_mode::device) return own("asked for");
  auto insists = choice.mode == copy_mode::verbs;
  auto copies = open(verbs_options(choice, qos));
  if (!copies && insists) return copies.error();
  if (!copies) return own(copies.error().text);
  auto made_with = "verbs on " + (*copies)->device();
  auto looped = make_looped_device(device, std::move(*copies), memory);
  if (!looped && insists) return looped.error();
  if (!looped) return own(looped.error().text);
  return engine_copies{std::move(*looped), std::move(made_with), {}};
}

} // namespace dualpath::apps

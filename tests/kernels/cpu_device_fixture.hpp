// A CPU device for tests that look at it from outside, and blocking forms of its operations.
#pragma once

#include "cpu_fixture.hpp"

#include <future>
#include <utility>

namespace dualpath::kernels::test {

inline std::unique_ptr<compute_device> must_make(std::shared_ptr<const model_weights> weights,
                                                 cpu_options options) {
  auto device = make_cpu_device(std::move(weights), options);
  if (!device) FAIL(device.error().text);
  return std::move(*device);
}

inline core::result<void> run_layers(compute_device& device, forward_pass& pass, std::uint32_t first,
                                     std::uint32_t count, std::vector<kv_view> views) {
  std::promise<core::result<void>> outcome;
  device.run_layers(pass, first, count, std::move(views),
                    [&](auto result) { outcome.set_value(std::move(result)); });
  return outcome.get_future().get();
}

inline core::result<std::vector<core::token_id>> sample(compute_device& device, forward_pass& pass) {
  std::promise<core::result<std::vector<core::token_id>>> outcome;
  device.sample(pass, [&](auto result) { outcome.set_value(std::move(result)); });
  return outcome.get_future().get();
}

/// Generates greedily after `prompt`, one device call per token.
inline std::vector<core::token_id> generate(compute_device& device, sequence tokens, std::uint32_t count,
                                            sampling how) {
  kv_memory kv{device.layout(), tokens.size() + count};
  std::vector<core::token_id> generated;
  std::uint32_t done = 0;
  while (generated.size() < count) {
    auto pass = device.begin({batch_entry{&tokens, done, tokens.size() - done, done, true, how}});
    auto ran = run_layers(device, *pass, 0, device.model().layers, {kv.view});
    if (!ran) FAIL(ran.error().text);
    auto sampled = sample(device, *pass);
    if (!sampled) FAIL(sampled.error().text);
    REQUIRE(sampled->size() == 1);
    done = tokens.size();
    tokens.append(sampled->front());
    generated.push_back(sampled->front());
  }
  return generated;
}

} // namespace dualpath::kernels::test

// How fast a compute device runs a model: tokens per second of a prefill, and of decoding one sequence at a
// context.
#pragma once

#include "core/result.hpp"
#include "kernels/compute.hpp"
#include "kernels/cpu/cpu_device.hpp"
#include "kernels/model/model_weights.hpp"

#include <cstdint>
#include <memory>

namespace dualpath::kernels {

struct compute_bench_options {
  std::uint32_t prefill_tokens = 1024;
  std::uint32_t context_tokens = 1024; ///< cached when decoding starts
  std::uint32_t decode_tokens = 32;
  std::uint32_t repeats = 3; ///< the best one counts
};

struct compute_bench_result {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  double prefill_gflop_per_s = 0; ///< two per weight and token, without attention
};

/// Fails where the device does, and where the model cannot take so many tokens. `active_parameters` may be 0:
/// then prefill_gflop_per_s is 0 too.
core::result<compute_bench_result> bench_device(compute_device& device, std::uint64_t active_parameters,
                                                const compute_bench_options& options);
/// The CPU device of `model` with its KV in `device.kv_dtype`.
core::result<compute_bench_result> bench_compute(std::shared_ptr<const model_weights> model,
                                                 const cpu_options& device,
                                                 const compute_bench_options& options = {});

} // namespace dualpath::kernels

// The CPU compute device: real transformer arithmetic in float32 over Layer Blocks in host memory. One driver
// thread runs the forward passes in order, one more the copies, so that a transfer need not wait for a layer;
// each calls its completions. The loops inside a layer are shared with a thread pool.
#pragma once

#include "core/result.hpp"
#include "kernels/compute.hpp"
#include "kernels/cpu/forward.hpp"
#include "kernels/cpu/operation_queue.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/model/model_weights.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace dualpath::kernels {

struct cpu_options {
  kernels::kv_dtype kv_dtype = kernels::kv_dtype::f32;
  std::uint32_t block_tokens = 64;
  /// Threads that compute; 0: as many as the machine has cores. Ignored where a pool is given.
  std::uint32_t threads = 0;
  std::shared_ptr<thread_pool> pool; ///< shared by several devices of a process, or empty
};

/// Its end finishes the operations in progress; those behind them complete with `closed`.
class cpu_device final : public compute_device {
public:
  cpu_device(std::shared_ptr<const model_weights> weights, const cpu_options& options);

  const model_info& model() const override { return info_; }
  std::uint32_t block_tokens() const override { return block_tokens_; }
  core::result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes) override;
  std::unique_ptr<forward_pass> begin(std::vector<batch_entry> entries) override;
  void run_layers(forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                  std::vector<kv_view> views, done on_done) override;
  void sample(forward_pass& pass, sampled on_done) override;
  void copy(std::vector<copy_op> copies, done on_done) override;
  double predicted_seconds(std::uint64_t, std::uint64_t) const override { return -1; }
  bool verifies_kv() const override { return false; }

private:
  core::result<std::vector<core::token_id>> sample_now(cpu_pass& pass);

  model_info info_;
  std::uint32_t block_tokens_;
  std::shared_ptr<thread_pool> pool_;
  cpu_forward forward_;
  operation_queue passes_; ///< last, so that their threads end before what they use
  operation_queue copies_;
};

/// Fails for a block size of zero.
core::result<std::unique_ptr<compute_device>> make_cpu_device(std::shared_ptr<const model_weights> weights,
                                                              const cpu_options& options);

} // namespace dualpath::kernels

// A compute device: runs a transformer layer by layer over Layer Blocks, so that the KV-cache of one layer
// can travel while another is computed (spec §4). Implementations: cpu/ (real), pattern (KV bytes that verify
// themselves, computing time from FLOPs), cuda/ (real).
//
// Numerical contract: the KV rows and the sampled token of a sequence depend on (model, tokens, sampling)
// alone, never on what else is in the batch, on how a prompt was cut into chunks, or on where its cached KV
// came from.
//
// Threading: calls come from one thread at a time; completions run once each on a thread of the device, never
// inside the call. Operations of one forward pass run in the order issued. Whatever is passed by reference
// (forward pass, sequences, KV memory) must stay until the completion.
#pragma once

#include "core/clock.hpp"
#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/result.hpp"
#include "kernels/sequence.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dualpath::kernels {

struct model_info {
  std::string name;
  core::model_fingerprint fingerprint; ///< weights, architecture, KV dtype; not the block size
  std::uint32_t layers = 0;
  std::uint32_t token_bytes = 0; ///< KV bytes per layer per token
  std::uint32_t vocabulary = 0;
  std::uint32_t max_tokens = 0; ///< longest sequence the model can take
};

struct sampling {
  float temperature = 0;  ///< 0: greedy
  std::uint64_t seed = 0; ///< the draw at a position depends on (seed, position) only
};

/// One sequence's part of a forward batch: computes positions [first_position, first_position + token_count).
struct batch_entry {
  const sequence* tokens = nullptr; ///< at least first_position + token_count tokens
  std::uint32_t first_position = 0;
  std::uint32_t token_count = 0;
  /// Cached rows from here to first_position reach this device for the first time; the pattern device
  /// verifies them.
  std::uint32_t unseen_from = 0;
  bool wants_token = false; ///< sample the token after the last computed position
  kernels::sampling sampling;
};

/// Where the KV rows of one sequence lie: the row of position p in layer l is at
/// blocks[p / block_tokens] + l * layer_stride_bytes + (p % block_tokens) * token_bytes.
/// Rows before first_position are read, the computed ones are written. Staging that holds a single layer has
/// stride 0.
struct kv_view {
  std::vector<std::byte*> blocks;
  std::uint64_t layer_stride_bytes = 0;
};

/// The hidden states of a batch between layers; owned by the caller, made by begin().
class forward_pass {
public:
  virtual ~forward_pass() = default;
};

struct copy_op {
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  std::uint64_t bytes = 0;
};

/// Memory of the device; on the CPU, page-aligned host memory. Frees itself.
class device_memory {
public:
  virtual ~device_memory() = default;
  virtual std::span<std::byte> bytes() = 0;
};

class compute_device {
public:
  using done = std::function<void(core::result<void>)>;
  using sampled = std::function<void(core::result<std::vector<core::token_id>>)>;

  virtual ~compute_device() = default;
  virtual const model_info& model() const = 0;
  virtual std::uint32_t block_tokens() const = 0;
  core::block_layout layout() const { return {model().layers, block_tokens(), model().token_bytes}; }

  virtual core::result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes) = 0;

  /// Starts a pass over `entries`; looks up the embeddings. The sequences must outlive the pass.
  virtual std::unique_ptr<forward_pass> begin(std::vector<batch_entry> entries) = 0;
  /// Computes layers [first_layer, first_layer + layer_count), one kv_view per entry.
  /// Fails with corrupt_kv where a device that can tell finds wrong bytes.
  virtual void run_layers(forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                          std::vector<kv_view> views, done on_done) = 0;
  /// After the last layer: one token per entry that wants one, in entry order.
  virtual void sample(forward_pass& pass, sampled on_done) = 0;
  /// Copies between host memory and device memory, in any direction; the ranges of one call must not overlap.
  virtual void copy(std::vector<copy_op> copies, done on_done) = 0;

  /// Seconds a batch of (cached, computed) token counts would take, where the device knows without measuring.
  /// Devices that must be measured return a negative number.
  virtual double predicted_seconds(std::uint64_t cached_tokens, std::uint64_t computed_tokens) const = 0;

  /// Whether cached KV rows are compared with the tokens before them, which then must be known to a decode
  /// engine too. Others are told only the tokens whose rows are still to be computed.
  virtual bool verifies_kv() const = 0;
};

} // namespace dualpath::kernels

// Keeps storage reads from making a compute NIC or DRAM the bottleneck while nodes come and go (spec §5):
// from the shape of the moment it derives the share of reads that the decode side may take, and counts the
// reads placed so far. Pure; not thread-safe.
#pragma once

#include "core/policy/bounds.hpp"
#include "core/policy/path_choice.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace dualpath::core {

/// What of a cluster_shape does not change while it runs.
struct node_shape {
  std::uint32_t gpus = 1;
  double storage_bytes_per_s = 0; ///< of a node, each way
  double nic_bytes_per_s = 0;     ///< of a compute NIC, each way
  double memory_bytes_per_s = 0;  ///< of a node; 0: no limit
};

class read_balance {
public:
  /// Without a shape, or with a rate of 0 in it, nothing is limited.
  explicit read_balance(std::optional<node_shape> node = std::nullopt);

  /// The cluster has that many serving nodes of each role from now on. Tells what that means (explain_bounds)
  /// where the shape is another one than before and both counts are above 0.
  std::optional<std::string> reshape(std::uint32_t prefill_nodes, std::uint32_t decode_nodes);
  /// The limits, and the reads placed lately: for path_inputs.
  const read_share& share() const { return share_; }
  bool binds() const { return share_.lowest > 0 || share_.highest < 1; }
  void placed(std::uint64_t prefill_tokens, std::uint64_t decode_tokens);

private:
  std::optional<node_shape> node_;
  std::uint32_t prefill_nodes_ = 0, decode_nodes_ = 0;
  read_share share_;
};

} // namespace dualpath::core

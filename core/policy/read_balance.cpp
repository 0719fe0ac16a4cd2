#include "core/policy/read_balance.hpp"

namespace dualpath::core {

namespace {

/// Long enough to hold many requests of 64 K tokens, short enough to forget a load that has passed.
constexpr std::uint64_t window_tokens = 8ULL << 20;
constexpr double no_limit_bytes_per_s = 1e18;

} // namespace

read_balance::read_balance(std::optional<node_shape> node) : node_{node} {
  if (node_ && (node_->storage_bytes_per_s <= 0 || node_->nic_bytes_per_s <= 0)) node_.reset();
}

std::optional<std::string> read_balance::reshape(std::uint32_t prefill_nodes, std::uint32_t decode_nodes) {
  if (!node_ || (prefill_nodes == prefill_nodes_ && decode_nodes == decode_nodes_)) return std::nullopt;
  prefill_nodes_ = prefill_nodes;
  decode_nodes_ = decode_nodes;
  share_ = {};
  if (prefill_nodes == 0 || decode_nodes == 0) return std::nullopt;
  cluster_shape shape;
  shape.prefill_nodes = prefill_nodes;
  shape.decode_nodes = decode_nodes;
  shape.gpus_per_node = node_->gpus;
  shape.storage_ratio = node_->storage_bytes_per_s / node_->nic_bytes_per_s;
  shape.nic_bytes_per_s = node_->nic_bytes_per_s;
  shape.memory_bytes_per_s = node_->memory_bytes_per_s > 0 ? node_->memory_bytes_per_s : no_limit_bytes_per_s;
  share_.lowest = min_decode_read_share(shape);
  share_.highest = max_decode_read_share(shape);
  return explain_bounds(shape);
}

void read_balance::placed(std::uint64_t prefill_tokens, std::uint64_t decode_tokens) {
  share_.all_tokens += prefill_tokens + decode_tokens;
  share_.decode_tokens += decode_tokens;
  if (share_.all_tokens <= window_tokens) return;
  share_.all_tokens /= 2;
  share_.decode_tokens /= 2;
}

} // namespace dualpath::core

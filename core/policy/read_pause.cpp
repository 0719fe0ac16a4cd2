#include "core/policy/read_pause.hpp"

namespace dualpath::core {

void read_pause::failed(node_id node, instant now) { nodes_[node] = {now + pause_}; }

void read_pause::placed(node_id node, instant now) {
  auto found = nodes_.find(node);
  if (found != nodes_.end() && !avoids(node, now)) found->second = {now + patience_, true};
}

void read_pause::succeeded(node_id node) {
  auto found = nodes_.find(node);
  if (found != nodes_.end() && found->second.tried) nodes_.erase(found);
}

bool read_pause::avoids(node_id node, instant now) const {
  auto found = nodes_.find(node);
  return found != nodes_.end() && now < found->second.until;
}

} // namespace dualpath::core

#include "core/engine_table.hpp"

#include <algorithm>

namespace dualpath::core {

void engine_table::up(engine_id engine, node_id node, engine_role role, std::uint64_t hbm_tokens) {
  auto [place, is_new] = engines_.try_emplace(engine);
  auto& e = place->second;
  if (!is_new && (e.node != node || e.role != role)) {
    leave_group(engine, e);
    is_new = true;
  }
  if (!e.live) ++live_count_;
  e.node = node;
  e.role = role;
  e.live = true;
  e.retired = false;
  e.hbm_tokens = hbm_tokens;
  if (is_new) {
    auto& members = groups_[{node, role}].engines;
    members.insert(std::lower_bound(members.begin(), members.end(), engine), engine);
  }
  list_decode_groups();
}

void engine_table::down(engine_id engine) {
  auto place = engines_.find(engine);
  if (place == engines_.end() || !place->second.live) return;
  place->second.live = false;
  --live_count_;
  list_decode_groups();
}

void engine_table::retire(engine_id engine) {
  auto place = engines_.find(engine);
  if (place == engines_.end()) return;
  place->second.retired = true;
  if (place->second.live) --live_count_;
  place->second.live = false;
  list_decode_groups();
}

std::uint64_t engine_table::requests_of(engine_id engine) const {
  auto place = engines_.find(engine);
  return place == engines_.end() ? 0 : place->second.requests;
}

void engine_table::charge(engine_id engine, std::uint64_t tokens) {
  auto& e = engines_.at(engine);
  e.requests += 1;
  e.tokens += tokens;
  count(e, tokens, true);
}

void engine_table::release(engine_id engine, std::uint64_t tokens) {
  auto& e = engines_.at(engine);
  e.requests -= 1;
  e.tokens -= tokens;
  count(e, tokens, false);
}

void engine_table::add_waiting(node_id node, std::uint64_t tokens) { count_waiting(node, tokens, true); }

void engine_table::remove_waiting(node_id node, std::uint64_t tokens) { count_waiting(node, tokens, false); }

std::vector<engine_load> engine_table::loads_of(node_id node, engine_role role,
                                                std::uint64_t read_queue_tokens) const {
  std::vector<engine_load> loads;
  const auto* members = find(node, role);
  if (!members) return loads;
  loads.reserve(members->engines.size());
  for (auto id : members->engines) {
    const auto& e = engines_.at(id);
    if (!e.live) continue;
    auto free_hbm_tokens = e.hbm_tokens - std::min(e.hbm_tokens, e.tokens);
    loads.push_back({id, e.requests, e.tokens, read_queue_tokens, free_hbm_tokens});
  }
  return loads;
}

bool engine_table::has_live(node_id node, engine_role role) const {
  const auto* members = find(node, role);
  return members && std::any_of(members->engines.begin(), members->engines.end(), [this](auto id) {
           return engines_.at(id).live;
         });
}

std::uint64_t engine_table::most_hbm_tokens(node_id node) const {
  std::uint64_t most = 0;
  if (const auto* members = find(node, engine_role::decode))
    for (auto id : members->engines) most = std::max(most, engines_.at(id).hbm_tokens);
  return most;
}

const engine_table::group* engine_table::find(node_id node, engine_role role) const {
  auto place = groups_.find({node, role});
  return place == groups_.end() ? nullptr : &place->second;
}

void engine_table::leave_group(engine_id engine, const entry& from) {
  std::erase(groups_.at({from.node, from.role}).engines, engine);
}

void engine_table::count(const entry& engine, std::uint64_t tokens, bool more) {
  if (engine.role != engine_role::decode || !counts(engine)) return;
  auto index = groups_.at({engine.node, engine.role}).index;
  if (index == none) return;
  auto& sum = decode_group_tokens_[index];
  sum = more ? sum + tokens : sum - tokens;
}

void engine_table::count_waiting(node_id node, std::uint64_t tokens, bool more) {
  auto& group = groups_[{node, engine_role::decode}];
  group.waiting_tokens = more ? group.waiting_tokens + tokens : group.waiting_tokens - tokens;
  if (group.index == none) return;
  auto& sum = decode_group_tokens_[group.index];
  sum = more ? sum + tokens : sum - tokens;
}

void engine_table::list_decode_groups() {
  auto is_live = [this](auto id) { return engines_.at(id).live; };
  auto live_in = [&](const group& g) { return std::any_of(g.engines.begin(), g.engines.end(), is_live); };
  any_decode_live_ = std::any_of(groups_.begin(), groups_.end(), [&](auto& each) {
    return each.first.second == engine_role::decode && live_in(each.second);
  });
  decode_groups_.clear();
  decode_group_tokens_.clear();
  for (auto& [key, group] : groups_) {
    group.index = none;
    auto counted = [this](auto id) { return counts(engines_.at(id)); };
    if (key.second != engine_role::decode
        || std::none_of(group.engines.begin(), group.engines.end(), counted))
      continue;
    auto sum = group.waiting_tokens;
    for (auto id : group.engines)
      if (counted(id)) sum += engines_.at(id).tokens;
    group.index = decode_groups_.size();
    decode_groups_.push_back(key.first);
    decode_group_tokens_.push_back(sum);
  }
}

} // namespace dualpath::core

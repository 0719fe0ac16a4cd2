#include "core/fault_ends.hpp"

#include "core/fault_plan.hpp"

#include <algorithm>

namespace dualpath::core {

namespace {

std::vector<std::string> plan_for(const std::vector<std::string>& texts, node_id node) {
  auto plan = fault_plan::parse_for(texts, node);
  return plan ? plan->describe() : std::vector<std::string>{};
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

const char* say(fault_miss why) {
  switch (why) {
  case fault_miss::not_reached:
    return " planned faults never happened: the run was too short";
  case fault_miss::no_node:
    return " planned faults never happened: no such node served";
  case fault_miss::replaced:
    return " planned faults never happened: the node has a plan of its own";
  case fault_miss::untold:
    break;
  }
  return " planned faults may not have happened: their node ended without a word";
}

} // namespace

std::vector<missed_fault> missed_faults(const std::vector<std::string>& texts,
                                        const std::vector<told_faults>& told,
                                        const std::set<node_id>& silent) {
  std::vector<missed_fault> missed;
  auto add = [&missed](const std::string& fault, node_id node, fault_miss why) {
    missed.push_back({fault + "@" + std::to_string(node.value), why});
  };
  for (auto& its : told)
    for (auto& fault : its.pending) add(fault, its.node, fault_miss::not_reached);
  std::set<node_id> named;
  for (auto& text : texts)
    if (auto node = fault_plan::named_node(text)) named.insert(*node);
  for (auto node : named) {
    auto its = std::find_if(told.begin(), told.end(), [node](auto& t) { return t.node == node; });
    for (auto& fault : plan_for(texts, node)) {
      if (its == told.end())
        add(fault, node, silent.contains(node) ? fault_miss::untold : fault_miss::no_node);
      else if (!contains(its->planned, fault))
        add(fault, node, fault_miss::replaced);
    }
  }
  return missed;
}

std::vector<std::string> describe(const std::vector<missed_fault>& missed) {
  constexpr std::size_t most_named = 5;
  std::vector<std::string> sentences;
  for (auto why : all_misses) {
    std::string names;
    std::size_t count = 0;
    for (auto& each : missed) {
      if (each.why != why) continue;
      if (++count <= most_named) names += (count == 1 ? "" : ", ") + each.fault;
    }
    if (count == 0) continue;
    if (count > most_named) names += " and " + std::to_string(count - most_named) + " more";
    sentences.push_back(std::to_string(count) + say(why) + " (" + names + ")");
  }
  return sentences;
}

} // namespace dualpath::core

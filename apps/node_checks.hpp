// Whether a machine has what a node needs, what each thing is needed for, and how to get it. Pure.
#pragma once

#include "apps/node_facts.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dualpath::apps {

enum class check_status : std::uint8_t {
  ok,
  warn, ///< works, but slower or with less
  fail, ///< does not work
};
constexpr const char* to_string(check_status status) {
  return status == check_status::ok ? "ok" : status == check_status::warn ? "warn" : "fail";
}

struct node_check {
  std::string name; ///< short, constant
  check_status status = check_status::ok;
  std::string found;      ///< in a few words
  std::string needed_for; ///< what stops or suffers without it
  std::string fix;        ///< what to do; "" where status is ok
};

/// One a thing, always the same ones in the same order.
std::vector<node_check> judge_node(const node_facts& facts);
/// Nothing that is needed is missing.
bool is_fit(std::span<const node_check> checks);

/// Aligned, one line a check; of those that are not ok also what for and how to fix it.
std::string format_checks(std::span<const node_check> checks);
/// {"ok": ..., "checks": [...]}, ends with a newline.
std::string checks_json(std::span<const node_check> checks);

} // namespace dualpath::apps

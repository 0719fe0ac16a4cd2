#include "core/fault_plan.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

namespace dualpath::core {

namespace {

struct planned_fault {
  engine_role role;
  std::uint64_t step;
};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    auto colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

std::optional<engine_role> parse_role(std::string_view text) {
  if (text == to_string(engine_role::prefill)) return engine_role::prefill;
  if (text == to_string(engine_role::decode)) return engine_role::decode;
  return std::nullopt;
}

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t lowest) {
  std::uint64_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size() || number < lowest) return std::nullopt;
  return number;
}

/// `count` different steps of [1, within]: Floyd's sampling, which needs no list of all of them. The modulo
/// is slightly uneven, but unlike std::uniform_int_distribution it draws the same steps with every standard
/// library.
std::vector<std::uint64_t> draw_steps(std::uint64_t count, std::uint64_t within, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<std::uint64_t> steps;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto highest = within - count + 1 + i;
    auto step = random() % highest + 1;
    bool drawn = std::find(steps.begin(), steps.end(), step) != steps.end();
    steps.push_back(drawn ? highest : step);
  }
  return steps;
}

/// The faults a text stands for; none where it cannot be understood.
std::vector<planned_fault> parse_text(std::string_view text) {
  constexpr std::uint64_t most_faults = 1000;
  auto parts = split(text);
  if (parts.size() < 3) return {};
  auto role = parse_role(parts[1]);
  if (!role) return {};
  if (parts[0] == "crash" && parts.size() == 3) {
    auto step = parse_number(parts[2], 1);
    if (step) return {{*role, *step}};
  }
  if (parts[0] == "random" && parts.size() == 5) {
    auto count = parse_number(parts[2], 1), within = parse_number(parts[3], 1),
         seed = parse_number(parts[4], 0);
    if (!count || !within || !seed || *count > *within || *count > most_faults) return {};
    std::vector<planned_fault> faults;
    for (auto step : draw_steps(*count, *within, *seed)) faults.push_back({*role, step});
    return faults;
  }
  return {};
}

} // namespace

fault_plan::fault_plan() : state_{std::make_shared<shared_state>()} {}

result<fault_plan> fault_plan::parse(const std::vector<std::string>& texts) {
  fault_plan plan;
  for (const auto& text : texts) {
    auto faults = parse_text(text);
    if (faults.empty())
      return error{errc::invalid_argument,
                   "\"" + text
                       + "\" is not a fault; write crash:prefill:N, crash:decode:N with N from 1, or "
                         "random:ROLE:COUNT:WITHIN:SEED with COUNT up to WITHIN and 1000."};
    for (auto [role, step] : faults) plan.state_->of(role).steps.push_back(step);
  }
  for (auto role : {engine_role::prefill, engine_role::decode}) {
    auto& steps = plan.state_->of(role).steps;
    std::sort(steps.begin(), steps.end());
    auto twice = std::adjacent_find(steps.begin(), steps.end());
    if (twice != steps.end())
      return error{errc::invalid_argument, "Two faults crash " + std::string{to_string(role)} + " step "
                                               + std::to_string(*twice) + "; a step can crash once."};
  }
  return plan;
}

bool fault_plan::should_crash(engine_role role) {
  auto& faults = state_->of(role);
  auto step = faults.started.fetch_add(1, std::memory_order_relaxed) + 1;
  return std::binary_search(faults.steps.begin(), faults.steps.end(), step);
}

std::size_t fault_plan::pending() const {
  std::size_t count = 0;
  for (auto role : {engine_role::prefill, engine_role::decode}) {
    auto& faults = state_->of(role);
    auto started = faults.started.load(std::memory_order_relaxed);
    count += static_cast<std::size_t>(
        std::count_if(faults.steps.begin(), faults.steps.end(), [&](auto step) { return step > started; }));
  }
  return count;
}

std::vector<std::string> fault_plan::describe() const {
  std::vector<std::string> texts;
  for (auto role : {engine_role::prefill, engine_role::decode})
    for (auto step : state_->of(role).steps)
      texts.push_back("crash:" + std::string{to_string(role)} + ":" + std::to_string(step));
  return texts;
}

} // namespace dualpath::core

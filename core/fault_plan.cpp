#include "core/fault_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

namespace dualpath::core {

namespace {

constexpr std::array<std::string_view, leg_count> leg_names{"prefill-read",
                                                            "decode-read",
                                                            "write",
                                                            "prefill-copy",
                                                            "decode-copy",
                                                            "get",
                                                            "put",
                                                            "prefill-compute",
                                                            "decode-compute",
                                                            "prefill-work",
                                                            "open-landing",
                                                            "landing",
                                                            "hits-loaded",
                                                            "part-read",
                                                            "hits-read",
                                                            "decode-work",
                                                            "handed-over",
                                                            "close-landing",
                                                            "tokens",
                                                            "round-done",
                                                            "request-finished",
                                                            "request-failed",
                                                            "abandon",
                                                            "abandoned",
                                                            "interrupted"};

std::optional<leg> parse_leg(std::string_view text) {
  auto found = std::find(leg_names.begin(), leg_names.end(), text);
  if (found == leg_names.end()) return std::nullopt;
  return static_cast<leg>(found - leg_names.begin());
}

std::optional<fault_kind> parse_kind(std::string_view text) {
  if (text == "error") return fault_kind::error;
  if (text == "late") return fault_kind::late;
  if (text == "lost") return fault_kind::lost;
  return std::nullopt;
}

constexpr const char* name_of(fault_kind kind) {
  return kind == fault_kind::error ? "error" : kind == fault_kind::late ? "late" : "lost";
}

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

/// "error:put:3" of "error:put:3@2".
std::string_view without_node(std::string_view text) { return text.substr(0, text.rfind('@')); }

std::optional<node_id> node_of(std::string_view text) {
  auto at = text.rfind('@');
  if (at == std::string_view::npos) return std::nullopt;
  auto number = parse_number(text.substr(at + 1), 0);
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return node_id{static_cast<std::uint32_t>(*number)};
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

/// A number that looks random and depends on its inputs alone (splitmix64).
std::uint64_t mix(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  auto z = seed * 0x9e3779b97f4a7c15ULL + stream * 0xd1b54a32d192ed03ULL + index;
  for (auto factor : {0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL}) {
    z = (z ^ (z >> 30)) * factor;
    z ^= z >> 27;
  }
  return z ^ (z >> 31);
}

} // namespace

std::string_view to_string(leg l) { return leg_names[static_cast<std::size_t>(l)]; }

/// Understands one text and adds its faults to a plan.
struct fault_plan::reader {
  shared_state& state;
  std::vector<std::string_view> parts;

  bool read() {
    if (parts.size() < 3) return false;
    if (parts[0] == "crash") return read_crash();
    if (parts[0] == "random") return read_random();
    if (parts[0] == "chaos") return read_chaos();
    return read_leg();
  }
  bool read_crash() {
    auto role = parse_role(parts[1]);
    auto step = parse_number(parts[2], 1);
    if (parts.size() != 3 || !role || !step) return false;
    state.of(*role).steps.push_back(*step);
    return true;
  }
  bool read_random() {
    constexpr std::uint64_t most_faults = 1000;
    auto role = parse_role(parts[1]);
    if (parts.size() != 5 || !role) return false;
    auto count = parse_number(parts[2], 1), within = parse_number(parts[3], 1),
         seed = parse_number(parts[4], 0);
    if (!count || !within || !seed || *count > *within || *count > most_faults) return false;
    auto& steps = state.of(*role).steps;
    for (auto step : draw_steps(*count, *within, *seed)) steps.push_back(step);
    return true;
  }
  bool read_chaos() {
    auto permille = parse_number(parts[1], 1), seed = parse_number(parts[2], 0);
    if (parts.size() != 3 || !permille || *permille > 1000 || !seed || state.chaos) return false;
    state.chaos = fault_plan::chaos{*permille, *seed};
    return true;
  }
  bool read_leg() {
    auto kind = parse_kind(parts[0]);
    auto which = parse_leg(parts[1]);
    auto operation = parse_number(parts[2], 1);
    if (parts.size() != 3 || !kind || !which || !operation) return false;
    if (is_message(*which) && *kind == fault_kind::error) return false;
    state.of(*which).faults.push_back({*operation, *kind});
    return true;
  }
};

fault_plan::fault_plan() : state_{std::make_shared<shared_state>()} {}

result<fault_plan> fault_plan::parse(const std::vector<std::string>& texts) {
  for (const auto& text : texts)
    if (auto node = node_of(text)) // whether the plan of that node is a good one
      if (auto its = read(texts, node); !its) return its.error();
  return read(texts, std::nullopt);
}

result<fault_plan> fault_plan::parse_for(const std::vector<std::string>& texts, node_id node) {
  return read(texts, node);
}

std::optional<node_id> fault_plan::named_node(const std::string& text) { return node_of(text); }

result<fault_plan> fault_plan::read(const std::vector<std::string>& texts, std::optional<node_id> node) {
  fault_plan plan;
  for (const auto& text : texts) {
    auto named = node_of(text);
    if (named && named != node) continue;
    if (!reader{*plan.state_, split(named ? without_node(text) : std::string_view{text})}.read())
      return error{errc::invalid_argument,
                   "\"" + text
                       + "\" is not a fault; write crash:prefill:N, crash:decode:N with N from 1, "
                         "random:ROLE:COUNT:WITHIN:SEED with COUNT up to WITHIN and 1000, error:LEG:N, "
                         "late:LEG:N or lost:LEG:N, where messages are late or lost only, or once "
                         "chaos:PERMILLE:SEED; @NODE behind it means the process of that node alone."};
  }
  if (auto sorted = plan.sort_and_check(); !sorted) return sorted.error();
  return plan;
}

result<void> fault_plan::sort_and_check() {
  for (auto role : {engine_role::prefill, engine_role::decode}) {
    auto& steps = state_->of(role).steps;
    std::sort(steps.begin(), steps.end());
    auto twice = std::adjacent_find(steps.begin(), steps.end());
    if (twice != steps.end())
      return error{errc::invalid_argument, "Two faults crash " + std::string{to_string(role)} + " step "
                                               + std::to_string(*twice) + "; a step can crash once."};
  }
  for (std::size_t i = 0; i < leg_count; ++i) {
    auto& faults = state_->legs[i].faults;
    std::sort(faults.begin(), faults.end(), [](auto& a, auto& b) { return a.operation < b.operation; });
    auto twice = std::adjacent_find(faults.begin(), faults.end(),
                                    [](auto& a, auto& b) { return a.operation == b.operation; });
    if (twice != faults.end())
      return error{errc::invalid_argument, "Two faults hit " + std::string{leg_names[i]} + " "
                                               + std::to_string(twice->operation)
                                               + "; an operation has one fault."};
  }
  return {};
}

bool fault_plan::chaotic_crash(engine_role role, std::uint64_t step) const {
  // A crash costs more than any other fault, and an engine has a budget of restarts.
  constexpr std::uint64_t most_crashes = 3;
  if (!state_->chaos || state_->crashed >= most_crashes) return false;
  auto [permille, seed] = *state_->chaos;
  return mix(seed, leg_count + static_cast<std::uint64_t>(role), step) % 1000 < permille;
}

bool fault_plan::should_crash(engine_role role) {
  auto& faults = state_->of(role);
  auto step = faults.started.fetch_add(1, std::memory_order_relaxed) + 1;
  auto crashes =
      std::binary_search(faults.steps.begin(), faults.steps.end(), step) || chaotic_crash(role, step);
  if (crashes) {
    ++state_->crashed;
    ++state_->happened;
  }
  return crashes;
}

fault_kind fault_plan::chaotic(leg l, std::uint64_t operation) const {
  auto [permille, seed] = *state_->chaos;
  auto drawn = mix(seed, static_cast<std::uint64_t>(l), operation);
  if (drawn % 1000 >= permille) return fault_kind::none;
  auto which = drawn / 1000 % 3;
  if (is_message(l)) return which == 0 ? fault_kind::late : fault_kind::lost;
  // A device that hangs takes its engine along for good, and a transfer ends at its deadline in any case.
  if (which == 2) return l == leg::get || l == leg::put ? fault_kind::lost : fault_kind::late;
  // Late computations crash their engine.
  if (l == leg::prefill_compute || l == leg::decode_compute) return fault_kind::error;
  return which == 0 ? fault_kind::error : fault_kind::late;
}

fault_kind fault_plan::next(leg l) {
  auto& planned = state_->of(l);
  auto operation = planned.started.fetch_add(1, std::memory_order_relaxed) + 1;
  auto kind = fault_kind::none;
  auto found = std::lower_bound(planned.faults.begin(), planned.faults.end(), operation,
                                [](auto& fault, auto number) { return fault.operation < number; });
  if (found != planned.faults.end() && found->operation == operation) {
    kind = found->kind;
  } else if (state_->chaos) {
    kind = chaotic(l, operation);
  }
  if (kind != fault_kind::none) ++state_->happened;
  return kind;
}

std::vector<std::string> fault_plan::pending_faults() const { return describe(true); }

bool fault_plan::touches_devices() const {
  if (state_->chaos) return true;
  for (std::size_t i = 0; i < leg_count; ++i)
    if (!is_message(static_cast<leg>(i)) && !state_->legs[i].faults.empty()) return true;
  return false;
}

bool fault_plan::empty() const { return !state_->chaos && describe().empty(); }

std::vector<std::string> fault_plan::describe(bool only_pending) const {
  std::vector<std::string> texts;
  for (auto role : {engine_role::prefill, engine_role::decode}) {
    auto& faults = state_->of(role);
    auto started = only_pending ? faults.started.load(std::memory_order_relaxed) : 0;
    for (auto step : faults.steps)
      if (step > started)
        texts.push_back("crash:" + std::string{to_string(role)} + ":" + std::to_string(step));
  }
  for (std::size_t i = 0; i < leg_count; ++i) {
    auto& planned = state_->legs[i];
    auto started = only_pending ? planned.started.load(std::memory_order_relaxed) : 0;
    for (auto [operation, kind] : planned.faults)
      if (operation > started)
        texts.push_back(std::string{name_of(kind)} + ":" + std::string{leg_names[i]} + ":"
                        + std::to_string(operation));
  }
  if (state_->chaos && !only_pending)
    texts.push_back("chaos:" + std::to_string(state_->chaos->permille) + ":"
                    + std::to_string(state_->chaos->seed));
  return texts;
}

} // namespace dualpath::core

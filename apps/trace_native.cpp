#include "apps/config_file.hpp"
#include "apps/trace_formats.hpp"

#include <limits>
#include <utility>

namespace dualpath::apps {

using nlohmann::json;

namespace {

core::result<void> only_known(const trace_line& line, const json& object,
                              const std::vector<std::string>& known) {
  for (const auto& item : object.items()) {
    bool found = false;
    for (const auto& name : known) found = found || name == item.key();
    if (found) continue;
    auto nearest = nearest_name(item.key(), known);
    return line.fail("unknown field " + shown(item.key())
                     + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  return {};
}

core::result<void> read_absolute(const trace_line& line, const json& object, core::round_spec& round) {
  auto block = token_count(line, object, "hash_block", 1);
  if (!block) return block.error();
  auto prompt = token_count(line, object, "prompt", 1);
  if (!prompt) return prompt.error();
  auto found = object.find("hash_ids");
  if (found == object.end()) return line.fail("field 'hash_ids' is missing");
  auto ids = number_list(line, *found, "hash_ids", std::numeric_limits<std::uint64_t>::max());
  if (!ids) return ids.error();
  if (ids->size() != (std::uint64_t{*prompt} + *block - 1) / *block)
    return line.fail(std::to_string(ids->size()) + " hash_ids of " + std::to_string(*block)
                     + " tokens do not make a prompt of " + std::to_string(*prompt));
  round.prompt_hash_ids = std::move(*ids);
  round.prompt_hash_block_tokens = *block;
  round.prompt_tokens = *prompt;
  return {};
}

core::result<void> read_append(const trace_line& line, const json& object, core::round_spec& round) {
  auto found = object.find("append");
  if (found == object.end() || !found->is_array()) {
    auto count = token_count(line, object, "append", 0);
    if (!count) return count.error();
    round.append_tokens = *count;
    return {};
  }
  if (found->empty()) return {};
  auto ids = number_list(line, *found, "append", std::numeric_limits<core::token_id>::max());
  if (!ids) return ids.error();
  if (ids->size() > max_sequence_tokens)
    return line.fail("append lists more than " + std::to_string(max_sequence_tokens) + " tokens");
  round.append_ids.assign(ids->begin(), ids->end());
  round.append_tokens = static_cast<std::uint32_t>(round.append_ids.size());
  return {};
}

} // namespace

core::result<core::round_spec> native_reader::read_round(const trace_line& line, const json& object) const {
  if (!object.is_object()) return line.fail("a round must be an object");
  auto known =
      only_known(line, object, {"append", "generate", "tool_ms", "prompt", "hash_ids", "hash_block"});
  if (!known) return known.error();
  core::round_spec round;
  auto absolute = object.contains("prompt") || object.contains("hash_ids");
  if (absolute && object.contains("append"))
    return line.fail("a round has either 'append' or 'prompt', not both");
  auto prompt = absolute ? read_absolute(line, object, round) : read_append(line, object, round);
  if (!prompt) return prompt.error();
  auto generate = token_count(line, object, "generate", 1);
  if (!generate) return generate.error();
  round.generate_tokens = *generate;
  auto tool = milliseconds(line, object, "tool_ms", 0);
  if (!tool) return tool.error();
  round.tool_ms = *tool;
  return round;
}

core::result<void> native_reader::add(const trace_line& line) {
  auto known = only_known(line, line.value, {"session", "arrival_ms", "rounds"});
  if (!known) return known.error();
  core::trajectory t;
  auto session = session_name(line, line.value, "session");
  if (!session) return session.error();
  if (!sessions_.insert(*session).second)
    return line.fail("session " + shown(*session) + " was on an earlier line");
  t.session = std::move(*session);
  auto arrival = milliseconds(line, line.value, "arrival_ms", 0);
  if (!arrival) return arrival.error();
  t.arrival_ms = *arrival;
  auto rounds = line.value.find("rounds");
  if (rounds == line.value.end() || !rounds->is_array() || rounds->empty())
    return line.fail("'rounds' must be a list of rounds that is not empty");

  std::uint64_t context = 0;
  for (const auto& object : *rounds) {
    auto round = read_round(line, object);
    if (!round) return round.error();
    context = round->absolute() ? round->prompt_tokens : context + round->append_tokens;
    if (context == 0) return line.fail("the first round must append at least 1 token");
    context += round->generate_tokens;
    if (context > max_sequence_tokens)
      return line.fail("the rounds add up to more than the " + std::to_string(max_sequence_tokens)
                       + " tokens a sequence may have");
    t.rounds.push_back(std::move(*round));
  }
  trace_.trajectories.push_back(std::move(t));
  return {};
}

core::result<core::trace> native_reader::finish() { return std::move(trace_); }

} // namespace dualpath::apps

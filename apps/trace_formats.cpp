#include "apps/trace_formats.hpp"

#include <cmath>

namespace dualpath::apps {

using nlohmann::json;

std::string shown(const json& value) {
  constexpr std::size_t longest = 40;
  auto text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

core::error trace_line::fail(const std::string& reason) const {
  return {core::errc::invalid_argument, file + ":" + std::to_string(number) + ": " + reason};
}

core::result<std::uint32_t> token_count(const trace_line& line, const json& object, const char* field,
                                        std::uint32_t least) {
  auto found = object.find(field);
  if (found == object.end()) return line.fail(std::string{"field '"} + field + "' is missing");
  auto name = std::string{field} + " = " + shown(*found);
  if (!found->is_number_integer()) return line.fail(name + " must be a whole number of tokens");
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() < least)
    return line.fail(name + " must be at least " + std::to_string(least));
  if (found->get<std::uint64_t>() > max_sequence_tokens)
    return line.fail(name + " is beyond the " + std::to_string(max_sequence_tokens)
                     + " tokens a sequence may have");
  return found->get<std::uint32_t>();
}

core::result<double> milliseconds(const trace_line& line, const json& object, const char* field,
                                  double fallback) {
  auto found = object.find(field);
  if (found == object.end()) {
    if (fallback >= 0) return fallback;
    return line.fail(std::string{"field '"} + field + "' is missing");
  }
  auto name = std::string{field} + " = " + shown(*found);
  if (!found->is_number()) return line.fail(name + " must be a number of milliseconds");
  auto value = found->get<double>();
  if (!(value >= 0)) return line.fail(name + " must not be negative");
  if (value > max_trace_ms)
    return line.fail(name + " is too large to be milliseconds from the start of a trace");
  return value;
}

core::result<std::string> session_name(const trace_line& line, const json& object, const char* field) {
  auto found = object.find(field);
  if (found == object.end()) return line.fail(std::string{"field '"} + field + "' is missing");
  if (found->is_number_integer()) return found->dump();
  if (!found->is_string() || found->get_ref<const std::string&>().empty())
    return line.fail(std::string{field} + " must be a name or a whole number, not " + shown(*found));
  return found->get<std::string>();
}

core::result<std::vector<std::uint64_t>> number_list(const trace_line& line, const json& list,
                                                     const char* field, std::uint64_t most) {
  if (!list.is_array() || list.empty())
    return line.fail(std::string{field} + " must be a list of whole numbers that is not empty");
  std::vector<std::uint64_t> numbers;
  numbers.reserve(list.size());
  for (const auto& item : list) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > most)
      return line.fail(std::string{field} + " holds " + shown(item)
                       + ", which is not a whole number from 0 to " + std::to_string(most));
    numbers.push_back(item.get<std::uint64_t>());
  }
  return numbers;
}

} // namespace dualpath::apps

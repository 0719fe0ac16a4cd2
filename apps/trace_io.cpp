#include "apps/trace_io.hpp"

#include "apps/trace_formats.hpp"
#include "core/workload/generator.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <optional>
#include <ostream>
#include <utility>

namespace dualpath::apps {

using nlohmann::json;

namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 20;
constexpr std::string_view synthetic_prefix = "synthetic:";

enum class read_state { line, end, too_long, failed };

/// As std::getline, but a file without line ends cannot fill the memory.
read_state read_line(std::istream& in, std::string& line) {
  line.clear();
  for (auto c = in.get(); in.good(); c = in.get()) {
    if (c == '\n') return read_state::line;
    if (line.size() == max_line_bytes) return read_state::too_long;
    line.push_back(static_cast<char>(c));
  }
  if (in.bad()) return read_state::failed;
  return line.empty() ? read_state::end : read_state::line;
}

bool blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

json to_json(const core::round_spec& round) {
  json object;
  if (round.absolute()) {
    object["prompt"] = round.prompt_tokens;
    object["hash_ids"] = round.prompt_hash_ids;
    object["hash_block"] = round.prompt_hash_block_tokens;
  } else if (round.append_ids.empty()) {
    object["append"] = round.append_tokens;
  } else {
    object["append"] = round.append_ids;
  }
  object["generate"] = round.generate_tokens;
  if (round.tool_ms > 0) object["tool_ms"] = round.tool_ms;
  return object;
}

} // namespace

core::result<core::trace> load_trace(const std::string& spec, const trace_options& options) {
  if (spec.starts_with(synthetic_prefix)) {
    auto profile = core::find_profile(std::string_view{spec}.substr(synthetic_prefix.size()));
    if (!profile) return profile.error();
    return core::generate_trace(*profile, options.trajectories, options.seed);
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(spec, ignored))
    return core::error{core::errc::invalid_argument,
                       "trace '" + spec + "' is a directory; name a JSON Lines file"};
  std::ifstream in{spec, std::ios::binary};
  if (!in)
    return core::error{core::errc::invalid_argument,
                       "cannot open trace '" + spec + "': " + std::strerror(errno)
                           + "; give a file or synthetic:32K, synthetic:48K, synthetic:64K"};
  return read_trace(in, spec, options);
}

core::result<core::trace> read_trace(std::istream& in, const std::string& name,
                                     const trace_options& options) {
  native_reader native;
  mooncake_reader mooncake{name, options.hash_block_tokens};
  std::optional<bool> is_native;
  trace_line line{name, 0, {}};
  std::string text;
  for (;;) {
    ++line.number;
    auto state = read_line(in, text);
    if (state == read_state::end) break;
    if (state == read_state::failed) return line.fail("cannot be read");
    if (state == read_state::too_long)
      return line.fail("longer than " + std::to_string(max_line_bytes >> 20)
                       + " MiB; is this a JSON Lines file?");
    if (blank(text)) continue;
    line.value = json::parse(text, nullptr, false);
    if (line.value.is_discarded()) return line.fail("not valid JSON");
    if (!line.value.is_object()) return line.fail("not a JSON object");
    if (!is_native) {
      is_native = line.value.contains("rounds");
      if (!*is_native && !line.value.contains("input_length") && !line.value.contains("hash_ids"))
        return line.fail(
            "neither a trajectory (with 'rounds') nor a request (with 'input_length' and 'hash_ids')");
    }
    auto added = *is_native ? native.add(line) : mooncake.add(line);
    if (!added) return added.error();
  }
  if (!is_native) return core::error{core::errc::invalid_argument, "trace '" + name + "' is empty"};
  auto t = *is_native ? native.finish() : mooncake.finish();
  if (t) t->name = std::filesystem::path{name}.filename().string();
  return t;
}

void write_trace(std::ostream& out, const core::trace& t) {
  for (const auto& one : t.trajectories) {
    nlohmann::ordered_json object;
    object["session"] = one.session;
    object["arrival_ms"] = one.arrival_ms;
    object["rounds"] = json::array();
    for (const auto& round : one.rounds) object["rounds"].emplace_back(to_json(round));
    out << object.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
  }
}

} // namespace dualpath::apps

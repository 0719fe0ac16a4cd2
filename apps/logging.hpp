// Events (core/log.hpp) as log lines, one an event, on standard error or in a file: as text,
//   13:05:37.204 warning engine_down node=0 engine=0 why="a crash as planned"
// or as JSON, one object a line, with time, level and event before the fields.
#pragma once

#include "core/log.hpp"
#include "core/result.hpp"

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace dualpath::apps {

enum class log_format : std::uint8_t { text, json };

struct log_options {
  core::log_level level = core::log_level::warn;
  log_format format = log_format::text;
  std::string file; ///< appended to; "": standard error
};

/// trace, debug, info, warn, error or off.
core::result<core::log_level> parse_log_level(std::string_view text);
/// text or json.
core::result<log_format> parse_log_format(std::string_view text);

/// From now on events go there. Errors: io (names the file). Not thread-safe.
core::result<void> set_up_logging(const log_options& options);

/// "engine_down node=0 why=\"a crash\"": values with anything but visible characters are quoted as in JSON.
std::string text_line(std::string_view event, std::span<const core::log_field> fields);
/// One JSON object without a line break; `time` in UTC with milliseconds. Bytes that are no UTF-8 are
/// replaced.
std::string json_line(std::chrono::system_clock::time_point time, core::log_level level,
                      std::string_view event, std::span<const core::log_field> fields);

} // namespace dualpath::apps

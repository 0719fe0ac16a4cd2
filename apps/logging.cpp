#include "apps/logging.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/fmt/chrono.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace dualpath::apps {

using nlohmann::ordered_json;

namespace {

struct level_name {
  std::string_view name;
  core::log_level level;
  spdlog::level::level_enum as_spdlog;
};
constexpr std::array levels{level_name{"trace", core::log_level::trace, spdlog::level::trace},
                            level_name{"debug", core::log_level::debug, spdlog::level::debug},
                            level_name{"info", core::log_level::info, spdlog::level::info},
                            level_name{"warn", core::log_level::warn, spdlog::level::warn},
                            level_name{"error", core::log_level::error, spdlog::level::err},
                            level_name{"off", core::log_level::off, spdlog::level::off}};

const level_name& named(core::log_level level) { return levels[static_cast<std::size_t>(level)]; }

std::string json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json to_json(const core::log_field& field) {
  return std::visit([](const auto& value) { return ordered_json(value); }, field.value);
}

class spdlog_sink final : public core::log_sink {
public:
  spdlog_sink(std::shared_ptr<spdlog::logger> logger, log_format format)
      : logger_{std::move(logger)}, format_{format} {
    logger_->set_pattern(format == log_format::json ? "%v" : "%H:%M:%S.%e %^%l%$ %v");
    logger_->set_level(spdlog::level::trace); // what is below the level does not get here
    logger_->flush_on(spdlog::level::trace);
  }
  void write(core::log_level level, std::string_view event,
             std::span<const core::log_field> fields) override {
    auto line = format_ == log_format::json
                    ? json_line(std::chrono::system_clock::now(), level, event, fields)
                    : text_line(event, fields);
    logger_->log(named(level).as_spdlog, "{}", line);
  }

private:
  std::shared_ptr<spdlog::logger> logger_;
  log_format format_;
};

std::shared_ptr<spdlog::logger> make_logger(const std::string& file) {
  if (file.empty())
    return std::make_shared<spdlog::logger>("dualpath",
                                            std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  return std::make_shared<spdlog::logger>("dualpath",
                                          std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
}

} // namespace

core::result<core::log_level> parse_log_level(std::string_view text) {
  for (const auto& each : levels)
    if (each.name == text) return each.level;
  return core::error{core::errc::invalid_argument,
                     "'" + std::string{text}
                         + "' is not a log level; choose trace, debug, info, warn, error or off"};
}

core::result<log_format> parse_log_format(std::string_view text) {
  if (text == "text") return log_format::text;
  if (text == "json") return log_format::json;
  return core::error{core::errc::invalid_argument,
                     "'" + std::string{text} + "' is not a log format; choose text or json"};
}

core::result<void> set_up_logging(const log_options& options) {
  // Kept for good: an event may be on its way to any of them.
  static std::vector<std::unique_ptr<spdlog_sink>> sinks;
  try {
    sinks.push_back(std::make_unique<spdlog_sink>(make_logger(options.file), options.format));
  } catch (const spdlog::spdlog_ex& failed) {
    return core::error{core::errc::io, "cannot write the log file '" + options.file + "': " + failed.what()};
  }
  core::set_log_sink(sinks.back().get(), options.level);
  return {};
}

std::string text_line(std::string_view event, std::span<const core::log_field> fields) {
  std::string line{event};
  for (const auto& field : fields) {
    line.append(" ").append(field.key).append("=");
    const auto* text = std::get_if<std::string_view>(&field.value);
    auto plain = text && !text->empty() && std::all_of(text->begin(), text->end(), [](char c) {
                   return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
                 });
    line += plain ? std::string{*text} : json_text(to_json(field));
  }
  return line;
}

std::string json_line(std::chrono::system_clock::time_point time, core::log_level level,
                      std::string_view event, std::span<const core::log_field> fields) {
  auto ms = std::chrono::floor<std::chrono::milliseconds>(time);
  auto seconds = std::chrono::floor<std::chrono::seconds>(ms);
  ordered_json line;
  line["time"] =
      fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                  (ms - seconds).count());
  line["level"] = named(level).name;
  line["event"] = event;
  for (const auto& field : fields) line[std::string{field.key}] = to_json(field);
  return json_text(line);
}

} // namespace dualpath::apps

#include "apps/logging.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace dualpath::apps {

void set_up_logging(const std::string& level) {
  auto logger = spdlog::get("dualpath");
  if (!logger) logger = spdlog::stderr_color_mt("dualpath");
  logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level == "error" ? "err" : level));
  spdlog::set_default_logger(logger);
}

} // namespace dualpath::apps

#include "core/log.hpp"

#include <atomic>

namespace dualpath::core {

namespace {

std::atomic<log_sink*> current_sink{nullptr};
std::atomic<log_level> least_level{log_level::off};

} // namespace

void set_log_sink(log_sink* sink, log_level least) {
  least_level = sink ? least : log_level::off;
  current_sink = sink;
}

bool log_enabled(log_level level) {
  return level != log_level::off && level >= least_level.load(std::memory_order_relaxed);
}

void log_event(log_level level, std::string_view event, std::initializer_list<log_field> fields) {
  if (!log_enabled(level)) return;
  if (auto* sink = current_sink.load()) sink->write(level, event, {fields.begin(), fields.size()});
}

} // namespace dualpath::core

// Events for whoever operates a cluster: each has a name, a level and fields, and is one line in the end,
// written as text or as JSON from the same fields. Whoever has something to tell calls log_event(); where it
// goes is up to the program, which sets a sink. Without one, events go nowhere.
//
//   core::log_event(core::log_level::warn, "engine_down", {{"engine", id}, {"why", text}});
//
// Names and keys are snake_case and constant; keys are the same everywhere: node, engine, request, epoch,
// incarnation, why. "time", "level" and "event" are taken by the line itself.
#pragma once

#include "core/ids.hpp"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

namespace dualpath::core {

enum class log_level : std::uint8_t { trace, debug, info, warn, error, off };

/// Refers to texts without owning them: made where the event is, and used before the statement ends.
struct log_field {
  using value_type = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view>;

  std::string_view key;
  value_type value;

  log_field(std::string_view k, std::string_view v) : key{k}, value{v} {}
  template <class Text>
  requires(std::is_convertible_v<const Text&, std::string_view>) log_field(std::string_view k, const Text& v)
      : key{k}, value{std::string_view{v}} {}
  template <class Tag, class Rep>
  log_field(std::string_view k, strong_id<Tag, Rep> id) : key{k}, value{std::uint64_t{id.value}} {}
  template <class Number>
  requires(std::is_arithmetic_v<Number>) log_field(std::string_view k, Number v)
      : key{k}, value{widened(v)} {}

private:
  template <class Number>
  static value_type widened(Number v) {
    if constexpr (std::is_same_v<Number, bool>)
      return v;
    else if constexpr (std::is_floating_point_v<Number>)
      return static_cast<double>(v);
    else if constexpr (std::is_signed_v<Number>)
      return static_cast<std::int64_t>(v);
    else
      return static_cast<std::uint64_t>(v);
  }
};

/// Where events go. write() is called from any thread, also from several at once.
class log_sink {
public:
  virtual ~log_sink() = default;
  virtual void write(log_level level, std::string_view event, std::span<const log_field> fields) = 0;
};

/// Events below `least` are dropped before the sink sees them; null stops all. The sink must outlive every
/// call of log_event(): it is set at start and stays. Thread-safe.
void set_log_sink(log_sink* sink, log_level least);
bool log_enabled(log_level level);
void log_event(log_level level, std::string_view event, std::initializer_list<log_field> fields = {});

} // namespace dualpath::core

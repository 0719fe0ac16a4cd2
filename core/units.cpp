#include "core/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

namespace dualpath::core {

namespace {

struct number_and_unit {
  double number;
  std::string_view unit;
};

std::string_view trimmed(std::string_view text) {
  auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// A finite number that is not negative, and what follows it.
std::optional<number_and_unit> split(std::string_view text) {
  text = trimmed(text);
  // Without this check from_chars would also take "inf" and "nan".
  if (text.empty() || !((text[0] >= '0' && text[0] <= '9') || text[0] == '.')) return std::nullopt;
  double number = 0;
  auto [end, failure] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (failure != std::errc{} || !std::isfinite(number)) return std::nullopt;
  return number_and_unit{number, trimmed(text.substr(static_cast<std::size_t>(end - text.data())))};
}

/// Removes a decimal or binary prefix from the front of `unit` and returns its factor.
double take_prefix(std::string_view& unit) {
  constexpr std::string_view letters = "KMGTP";
  if (unit.empty()) return 1;
  auto letter = unit[0] == 'k' ? 'K' : unit[0];
  auto place = letters.find(letter);
  if (place == std::string_view::npos) return 1;
  unit.remove_prefix(1);
  bool binary = !unit.empty() && unit[0] == 'i';
  if (binary) unit.remove_prefix(1);
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(place + 1));
}

error bad_quantity(std::string_view text, const char* what, const char* examples) {
  return {errc::invalid_argument,
          "\"" + std::string{text} + "\" is not " + what + "; write it like " + examples + "."};
}

/// With about three significant digits.
std::string scaled(double value, double step, std::span<const char* const> units) {
  std::size_t place = 0;
  // 999.5 would print as 1000 of the smaller unit.
  while (place + 1 < units.size() && value >= step - 0.5) {
    value /= step;
    ++place;
  }
  std::array<char, 48> text{};
  int decimals = place == 0 && value == std::floor(value) ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f%s", decimals, value, units[place]);
  return text.data();
}

} // namespace

result<double> parse_bytes_per_second(std::string_view text) {
  auto failure = [&] {
    return bad_quantity(text, "a rate in bytes per second", "200MB/s, 1.5GiB/s, 400Gb/s or 0");
  };
  auto parts = split(text);
  if (!parts) return failure();
  auto unit = parts->unit;
  double rate = parts->number * take_prefix(unit);
  if (unit == "b/s" || unit == "bit/s") return rate / 8;
  if (unit.empty() || unit == "B/s") return rate;
  return failure();
}

result<std::uint64_t> parse_bytes(std::string_view text) {
  auto failure = [&] { return bad_quantity(text, "a whole number of bytes", "4GiB, 64KiB, 200MB or 4096"); };
  auto parts = split(text);
  if (!parts) return failure();
  auto unit = parts->unit;
  double bytes = parts->number * take_prefix(unit);
  if (!unit.empty() && unit != "B") return failure();
  if (bytes != std::floor(bytes) || bytes >= 0x1p63) return failure();
  return static_cast<std::uint64_t>(bytes);
}

result<double> parse_flops(std::string_view text) {
  auto failure = [&] {
    return bad_quantity(text, "a number of operations per second", "2TFLOPS, 500GFLOPS, 1.5PFLOP/s or 0");
  };
  auto parts = split(text);
  if (!parts) return failure();
  auto unit = parts->unit;
  double flops = parts->number * take_prefix(unit);
  if (unit.empty() || unit == "FLOPS" || unit == "FLOP/s" || unit == "FLOPs" || unit == "flops") return flops;
  return failure();
}

result<duration> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 7> units{
      {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}}};
  auto failure = [&] { return bad_quantity(text, "a time with its unit", "300ms, 5us, 1.5s, 2min or 1h"); };
  auto parts = split(text);
  if (!parts) return failure();
  if (parts->unit.empty() && parts->number == 0) return duration{0};
  for (auto [name, nanoseconds] : units) {
    if (parts->unit != name) continue;
    double value = parts->number * nanoseconds;
    if (value >= 0x1p62) return failure();
    return duration{std::llround(value)};
  }
  return failure();
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array units{" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return scaled(static_cast<double>(bytes), 1024, units);
}

std::string format_rate(double bytes_per_second) {
  constexpr std::array units{" B/s", " kB/s", " MB/s", " GB/s", " TB/s", " PB/s"};
  return scaled(bytes_per_second, 1000, units);
}

std::string format_count(double count) {
  constexpr std::array units{"", " k", " M", " G", " T", " P"};
  if (count < 0) return "-" + format_count(-count);
  return scaled(count, 1000, units);
}

std::string format_duration(duration d) {
  constexpr std::array units{" ns", " us", " ms", " s"};
  if (d < duration{0}) return "-" + format_duration(-d);
  return scaled(static_cast<double>(d.count()), 1000, units);
}

} // namespace dualpath::core

#include "apps/config_file.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <numeric>
#include <utility>

#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

namespace dualpath::apps {

namespace {

using values_by_name = std::map<std::string, config_value>;

std::string place(const std::string& file, const toml::node& node) {
  return file + ":" + std::to_string(node.source().begin.line);
}

core::error fail(const std::string& where, const std::string& reason) {
  return {core::errc::invalid_argument, where + ": " + reason};
}

const char* type_name(config_key::kind type) {
  switch (type) {
  case config_key::kind::text:
    return "a string";
  case config_key::kind::integer:
    return "a whole number";
  case config_key::kind::number:
    return "a number";
  case config_key::kind::flag:
    return "true or false";
  case config_key::kind::list:
    return "a list of strings";
  }
  return "";
}

std::string shortest(double value) {
  char text[32];
  auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {text, end};
}

/// The text of a value of the right type; false otherwise. A string option takes a number too
/// (`snic_bandwidth = 0`), as on the command line.
bool to_text(const toml::node& node, config_key::kind type, std::string& text) {
  if (type == config_key::kind::flag) {
    if (!node.is_boolean()) return false;
    text = **node.as_boolean() ? "true" : "false";
    return true;
  }
  if (node.is_integer()) {
    text = std::to_string(**node.as_integer());
    return true;
  }
  if (node.is_floating_point() && type != config_key::kind::integer) {
    text = shortest(**node.as_floating_point());
    return true;
  }
  if (!node.is_string() || (type != config_key::kind::text && type != config_key::kind::list)) return false;
  text = **node.as_string();
  return true;
}

core::result<config_value> read_value(const toml::node& node, const config_key& key,
                                      const std::string& file) {
  config_value value;
  value.where = place(file, node);
  auto wrong = [&] { return fail(value.where, "'" + key.name + "' must be " + type_name(key.type)); };
  if (const auto* list = node.as_array(); list != nullptr) {
    if (key.type != config_key::kind::list) return wrong();
    for (const auto& item : *list) {
      std::string text;
      if (!to_text(item, key.type, text)) return wrong();
      value.values.push_back(std::move(text));
    }
    return value;
  }
  // A list of NAME=VALUE may be written as a table.
  if (const auto* table = node.as_table(); table != nullptr && key.type == config_key::kind::list) {
    for (const auto& [name, item] : *table) {
      std::string text;
      if (!to_text(item, key.type, text)) return wrong();
      value.values.push_back(std::string{name.str()} + "=" + text);
    }
    return value;
  }
  std::string text;
  if (!to_text(node, key.type, text)) return wrong();
  value.values.push_back(std::move(text));
  return value;
}

core::result<void> read_table(const toml::table& table, bool top, const std::string& file,
                              const std::vector<config_key>& known, values_by_name& values) {
  for (const auto& [toml_key, node] : table) {
    std::string name{toml_key.str()};
    if (top && name == "run" && node.is_table()) {
      auto nested = read_table(*node.as_table(), false, file, known, values);
      if (!nested) return nested;
      continue;
    }
    auto dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    auto key = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.name == dashed; });
    if (key == known.end()) {
      std::vector<std::string> names;
      for (const auto& k : known) names.push_back(k.name);
      auto nearest = nearest_name(dashed, names);
      return fail(place(file, node), "unknown key '" + name + "'"
                                         + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
    }
    auto value = read_value(node, *key, file);
    if (!value) return value.error();
    if (!values.emplace(dashed, std::move(*value)).second)
      return fail(place(file, node), "'" + dashed + "' is set twice");
  }
  return {};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      auto replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

} // namespace

core::result<values_by_name> parse_config(std::string_view text, const std::string& name,
                                          const std::vector<config_key>& known) {
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& failure) {
    return fail(name + ":" + std::to_string(failure.source().begin.line), std::string{failure.description()});
  }
  values_by_name values;
  auto read = read_table(table, true, name, known, values);
  if (!read) return read.error();
  return values;
}

core::result<values_by_name> read_config(const std::string& path, const std::vector<config_key>& known) {
  std::ifstream in{path, std::ios::binary};
  std::string text;
  for (auto c = in.get(); in.good(); c = in.get()) text.push_back(static_cast<char>(c));
  if (!in.is_open() || in.bad())
    return core::error{core::errc::invalid_argument, "cannot read configuration file '" + path + "'"};
  return parse_config(text, path, known);
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest;
  auto least = std::max<std::size_t>(name.size() / 2, 2) + 1; // further than half its letters is no help
  for (const auto& candidate : known)
    if (auto distance = edit_distance(name, candidate); distance < least) {
      least = distance;
      nearest = candidate;
    }
  return nearest;
}

} // namespace dualpath::apps

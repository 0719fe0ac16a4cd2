// Run options from a TOML file: the names of the flags, with dashes or underscores, at the top level or in
// [run].
#pragma once

#include "core/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dualpath::apps {

struct config_key {
  enum class kind : unsigned char { text, integer, number, flag, list };
  std::string name; ///< with dashes
  config_key::kind type = kind::text;
};

struct config_value {
  std::vector<std::string> values;
  std::string where; ///< "file:line", for errors about the value
};

/// Every value as text, by dashed name. Unknown keys name the nearest known one; a wrong type names file and
/// line.
core::result<std::map<std::string, config_value>> read_config(const std::string& path,
                                                              const std::vector<config_key>& known);
/// The same from text; `name` stands for the file in errors.
core::result<std::map<std::string, config_value>> parse_config(std::string_view text, const std::string& name,
                                                               const std::vector<config_key>& known);

/// The member of `known` that takes the fewest edits to become `name`; "" where none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

} // namespace dualpath::apps

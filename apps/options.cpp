#include "apps/options.hpp"

#include "apps/cluster_options.hpp"
#include "net/bootstrap.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstring>
#include <utility>

namespace dualpath::apps {

namespace {

core::result<std::map<std::string, config_value>> read_file(const std::string& path) {
  if (path.empty()) return std::map<std::string, config_value>{};
  std::vector<config_key> keys;
  for (const auto& row : run_option_table()) keys.push_back({row.name, row.type});
  return read_config(path, keys);
}

core::error at(const std::string& where, const core::error& failure) {
  return {failure.code, where + ": " + failure.text};
}

/// CLI11 indents lines of a description, but does not break them.
std::string wrap_help(std::string text) {
  constexpr std::size_t columns = 78;
  for (std::size_t start = 0; text.size() - start > columns;) {
    auto space = text.rfind(' ', start + columns);
    if (space == std::string::npos || space <= start) break;
    text[space] = '\n';
    start = space + 1;
  }
  return text;
}

void bind_row(CLI::App& app, raw_run_options& raw, const option_row& row) {
  auto flag = std::string{"--"} + row.name;
  auto store = [&raw, name = std::string{row.name}](std::vector<std::string> values) {
    raw.given[name] = std::move(values);
  };
  auto help = wrap_help(row.help);
  CLI::Option* option = nullptr;
  if (row.type == config_key::kind::flag)
    option = app.add_flag_callback(
        flag, [store] { store({"true"}); }, row.help);
  else if (row.type == config_key::kind::list)
    option = app.add_option_function<std::vector<std::string>>(flag, store, help)->allow_extra_args(false);
  else
    option = app.add_option_function<std::string>(
        flag, [store](const std::string& v) { store({v}); }, help);
  option->group(row.group);
  if (row.type != config_key::kind::flag) option->type_name(row.placeholder);
  if (std::strlen(row.fallback) > 0) option->default_str(row.fallback);
}

} // namespace

void bind_run_options(CLI::App& app, raw_run_options& raw, run_command command) {
  // A token log is of one run.
  auto hidden = [&](std::string_view name) {
    if (command == run_command::qos) return !name.starts_with("qos-");
    return command == run_command::run ? name == "policies" : name == "policy" || name == "tokens";
  };
  for (const auto& row : run_option_table())
    if (!hidden(row.name)) bind_row(app, raw, row);
  app.add_option("--config", raw.config, "TOML file with any of these options; flags win over it")
      ->type_name("FILE")
      ->group("Faults and output");
}

void bind_node_options(CLI::App& app, raw_run_options& raw) {
  auto own = [](std::string_view name) {
    return name == "log-level" || name == "log-format" || name == "log-file" || name == "store"
           || name == "secret-file" || name == "peer-timeout";
  };
  for (const auto& row : run_option_table())
    if (is_node_setting(row) || own(row.name)) bind_row(app, raw, row);
}

core::result<option_values> node_settings(const raw_run_options& raw) {
  auto file = read_file(raw.config);
  if (!file) return file.error();
  option_values values;
  for (const auto& row : run_option_table()) {
    if (!is_node_setting(row)) continue;
    if (auto flag = raw.given.find(row.name); flag != raw.given.end())
      values[row.name] = flag->second;
    else if (auto entry = file->find(row.name); entry != file->end())
      values[row.name] = entry->second.values;
  }
  return values;
}

core::result<run_options> resolve(const raw_run_options& raw) {
  auto options = resolve_for_node(raw);
  if (!options) return options;
  if (options->trace.empty())
    return core::error{core::errc::invalid_argument,
                       "no trace is given; add --trace FILE, or --trace synthetic:64K"};
  if (options->cluster.nodes() == 0) options->head_only = true;
  if (auto fits = check_cluster_options(*options, net::machine_name()); !fits) return fits.error();
  return options;
}

core::result<run_options> resolve_for_node(const raw_run_options& raw) {
  auto file = read_file(raw.config);
  if (!file) return file.error();
  run_options options;
  for (const auto& row : run_option_table()) {
    if (auto flag = raw.given.find(row.name); flag != raw.given.end()) {
      auto set = row.set(options, flag->second);
      if (!set) return at(std::string{"--"} + row.name, set.error());
    } else if (auto entry = file->find(row.name); entry != file->end()) {
      auto set = row.set(options, entry->second.values);
      if (!set) return at(entry->second.where + ": " + row.name, set.error());
    } else if (std::strlen(row.fallback) > 0) {
      auto set = row.set(options, {row.fallback});
      if (!set) return at(std::string{"default of --"} + row.name, set.error());
    }
  }
  if (auto checked = core::check_qos(options.qos); !checked) return checked.error();
  return options;
}

core::result<core::qos_config> resolve_qos(const raw_run_options& raw) {
  auto options = resolve_for_node(raw);
  if (!options) return options.error();
  return std::move(options->qos);
}

} // namespace dualpath::apps

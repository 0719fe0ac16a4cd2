#include "scenario.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>

namespace dualpath::scenarios {

namespace {

/// Reads one file; the first thing it cannot understand ends it.
class reader {
public:
  explicit reader(std::filesystem::path file) : file_{std::move(file)} {}

  core::result<std::vector<scenario>> read() {
    toml::table document;
    try {
      document = toml::parse_file(file_.string());
    } catch (const toml::parse_error& failure) {
      std::ostringstream text;
      text << failure;
      complain(text.str());
      return *failure_;
    }
    only(document, {"options", "scenario"});
    auto common = options_of(document["options"]);
    std::vector<scenario> all;
    for (auto& node : list(document["scenario"])) all.push_back(scenario_of(*node, common));
    if (all.empty()) complain("there is no [[scenario]]");
    if (failure_) return *failure_;
    return all;
  }

private:
  void complain(const std::string& why) {
    if (!failure_) failure_ = core::error{core::errc::invalid_argument, file_.string() + ": " + why};
  }

  void only(const toml::table& table, std::initializer_list<std::string_view> known) {
    for (auto&& [key, value] : table)
      if (std::find(known.begin(), known.end(), key.str()) == known.end())
        complain("unknown key '" + std::string{key.str()} + "'");
  }

  std::vector<const toml::table*> list(toml::node_view<const toml::node> node) {
    std::vector<const toml::table*> tables;
    if (auto* array = node.as_array())
      for (auto& element : *array)
        if (auto* table = element.as_table()) tables.push_back(table);
    return tables;
  }
  std::vector<const toml::table*> list(toml::node_view<toml::node> node) {
    return list(toml::node_view<const toml::node>{node.node()});
  }

  std::string text_of(const toml::node& node) {
    if (auto* text = node.as_string()) return text->get();
    std::ostringstream out;
    if (auto* number = node.as_integer()) {
      out << number->get();
    } else if (auto* real = node.as_floating_point()) {
      out << real->get();
    } else if (auto* flag = node.as_boolean()) {
      out << (flag->get() ? "true" : "false");
    } else {
      complain("a value is neither text, a number, true or false, nor a list of those");
    }
    return out.str();
  }

  std::vector<std::string> values_of(const toml::node& node) {
    if (auto* array = node.as_array()) {
      std::vector<std::string> values;
      for (auto& element : *array) values.push_back(text_of(element));
      return values;
    }
    return {text_of(node)};
  }

  template <class View>
  option_values options_of(View node) {
    option_values options;
    if (auto* table = node.as_table())
      for (auto&& [key, value] : *table) options[std::string{key.str()}] = values_of(value);
    return options;
  }

  template <class View>
  std::vector<expectation> expectations_of(View node) {
    std::vector<expectation> expectations;
    if (auto* table = node.as_table())
      for (auto&& [key, value] : *table) expectations.push_back({std::string{key.str()}, values_of(value)});
    return expectations;
  }

  scenario scenario_of(const toml::table& table, const option_values& common) {
    only(table, {"spec", "disk", "distinct_tokens", "thorough", "options", "vary", "faults", "chaos", "run",
                 "expect"});
    scenario result;
    result.spec = table["spec"].value_or(std::string{});
    if (result.spec.empty()) complain("a scenario has no spec");
    result.disk = table["disk"].value_or(std::string{});
    result.distinct_tokens = table["distinct_tokens"].value_or(false);
    result.thorough = table["thorough"].value_or(false);
    auto options = merged(common, options_of(table["options"]));
    auto expected = expectations_of(table["expect"]);
    auto faulty = injections_of(table);
    for (auto& base : variants(options_of(table["vary"]), options)) {
      if (!faulty.empty()) {
        add_faulty_runs(result, base, faulty);
        continue;
      }
      if (!table.contains("run")) result.runs.push_back(base);
      for (auto* node : list(table["run"])) result.runs.push_back(run_of(*node, base));
    }
    for (auto& run : result.runs)
      run.expectations.insert(run.expectations.begin(), expected.begin(), expected.end());
    return result;
  }

  /// What is injected into one run.
  struct injection {
    std::string name;
    std::vector<std::string> faults;
    std::uint64_t expected = 0; ///< faults that must happen; 0: as many as may be
  };

  std::vector<injection> injections_of(const toml::table& table) {
    std::vector<injection> all;
    if (auto* faults = table.get("faults")) {
      for (auto& text : values_of(*faults)) {
        std::istringstream words{text};
        injection next{text, {std::istream_iterator<std::string>{words}, {}}, 0};
        next.expected = next.faults.size();
        all.push_back(std::move(next));
      }
    }
    if (auto* chaos = table["chaos"].as_table()) {
      only(*chaos, {"permille", "runs"});
      auto permille = (*chaos)["permille"].value_or(10u);
      auto runs = (*chaos)["runs"].value_or(1u);
      if (const char* given = std::getenv("DUALPATH_CHAOS_RUNS"))
        runs = static_cast<unsigned>(std::strtoul(given, nullptr, 10));
      for (unsigned i = 0; i < runs; ++i) {
        auto text = "chaos:" + std::to_string(permille) + ":" + std::to_string(i) + "@seed";
        all.push_back({text, {text}, 0});
      }
    }
    return all;
  }

  /// One undisturbed run to compare with, and one a fault.
  static void add_faulty_runs(scenario& result, const run_spec& base, const std::vector<injection>& faulty) {
    if (result.runs.empty()) {
      auto undisturbed = base;
      undisturbed.name += (base.name.empty() ? "" : ", ") + std::string{"undisturbed"};
      result.runs.push_back(std::move(undisturbed));
    }
    for (auto& [name, faults, expected] : faulty) {
      auto run = base;
      run.name += (base.name.empty() ? "" : ", ") + name;
      run.options["inject"] = faults;
      run.expectations.push_back({"warns_of_store_only", {"true"}});
      if (expected > 0) run.expectations.push_back({"faults_happened", {std::to_string(expected)}});
      result.runs.push_back(std::move(run));
    }
  }

  run_spec run_of(const toml::table& table, const run_spec& base) {
    only(table, {"name", "options", "damage", "tokens", "expect"});
    auto run = base;
    auto name = table["name"].value_or(std::string{});
    run.name += (run.name.empty() ? "" : ", ") + name;
    run.options = merged(run.options, options_of(table["options"]));
    run.tokens = table["tokens"].value_or(std::string{});
    run.expectations = expectations_of(table["expect"]);
    if (auto* damage = table["damage"].as_table()) {
      only(*damage, {"how", "blocks", "depth_from", "depth_below"});
      run.damage.how = (*damage)["how"].value_or(std::string{});
      run.damage.blocks = (*damage)["blocks"].value_or(1u);
      run.damage.depth_from = (*damage)["depth_from"].value_or(0u);
      run.damage.depth_below = (*damage)["depth_below"].value_or(1u);
    }
    return run;
  }

  /// Every combination of the varied options; without any, one run with no name.
  static std::vector<run_spec> variants(const option_values& vary, const option_values& options) {
    std::vector<run_spec> runs(1);
    runs.front().options = options;
    for (auto& [option, values] : vary) {
      std::vector<run_spec> more;
      for (auto& run : runs) {
        for (auto& value : values) {
          auto variant = run;
          variant.options[option] = {value};
          variant.name += (variant.name.empty() ? "" : ", ") + option + " " + value;
          more.push_back(std::move(variant));
        }
      }
      runs = std::move(more);
    }
    return runs;
  }

  static option_values merged(option_values base, const option_values& over) {
    for (auto& [name, values] : over) base[name] = values;
    return base;
  }

  std::filesystem::path file_;
  std::optional<core::error> failure_;
};

} // namespace

core::result<std::vector<scenario>> read_scenarios(const std::filesystem::path& file) {
  return reader{file}.read();
}

} // namespace dualpath::scenarios

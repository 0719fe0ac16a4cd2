// Makes every scenario of every *.toml beside this file a test case of its own.
#include "scenario.hpp"
#include "scenario_checks.hpp"
#include "scenario_run.hpp"
#include "scenario_store.hpp"

#include "apps/logging.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

namespace dualpath::scenarios {

namespace {

namespace fs = std::filesystem;

void play(const scenario& test) {
  if (auto logs = apps::set_up_logging({}); !logs) FAIL(logs.error().text);
  auto store = scenario_store::open(test.disk);
  if (!store && store.error().code == core::errc::unsupported) {
    WARN("skipped: " << store.error().text);
    return;
  }
  if (!store) FAIL(store.error().text);
  std::vector<run_outcome> outcomes;
  for (auto& run : test.runs) {
    outcomes.push_back(execute(run, *store));
    check_run(run, outcomes.back(), std::span{outcomes}.first(outcomes.size() - 1));
  }
  check_tokens(test, outcomes);
}

class scenario_case final : public Catch::ITestInvoker {
public:
  explicit scenario_case(scenario test) : test_{std::move(test)} {}
  void invoke() const override { play(test_); }

private:
  scenario test_;
};

/// A file that cannot be read is a test that fails.
class unreadable_file final : public Catch::ITestInvoker {
public:
  explicit unreadable_file(std::string why) : why_{std::move(why)} {}
  void invoke() const override { FAIL(why_); }

private:
  std::string why_;
};

void add(const Catch::ITestInvoker* test, const std::string& name, const std::string& tag) {
  Catch::AutoReg{const_cast<Catch::ITestInvoker*>(test), CATCH_INTERNAL_LINEINFO, "",
                 Catch::NameAndTags{name, tag}};
}

bool add_all() {
  std::vector<fs::path> files;
  for (auto& entry : fs::directory_iterator{DUALPATH_SOURCE_DIR "/tests/scenarios"})
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (auto& file : files) {
    auto name = file.stem().string();
    auto scenarios = read_scenarios(file);
    if (!scenarios) {
      add(new unreadable_file{scenarios.error().text}, name + " can be read", "[" + name + "]");
      continue;
    }
    for (auto& test : *scenarios)
      add(new scenario_case{test}, test.spec, (test.thorough ? "[.thorough][" : "[") + name + "]");
  }
  return true;
}

const bool added = add_all();

} // namespace

} // namespace dualpath::scenarios

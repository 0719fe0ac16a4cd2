// Cluster tests as data: a scenario is a sentence, the options of its runs and what must come out of them.
// The scenarios lie in *.toml beside this file; README.md there describes the format.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dualpath::scenarios {

/// Options by their long name on the command line; a list has several values.
using option_values = std::map<std::string, std::vector<std::string>>;

/// One expectation: its name and its value or values as text.
struct expectation {
  std::string name;
  std::vector<std::string> values;
};

/// Damage done to stored blocks before a run.
struct store_damage {
  std::string how; ///< flip (a bit of the payload), truncate, or delete; "": none
  std::uint32_t blocks = 1;
  std::uint32_t depth_from = 0;  ///< only blocks with so many blocks before them in their prefix, or more
  std::uint32_t depth_below = 1; ///< and with fewer than that
};

struct run_spec {
  std::string name;
  option_values options; ///< all of them: file, scenario and run
  store_damage damage;
  std::string tokens; ///< runs with the same label generate the same tokens
  std::vector<expectation> expectations;
};

struct scenario {
  std::string spec;
  std::string disk; ///< size of a file system of its own for the store, as in 2MiB; "": the usual one
  bool distinct_tokens = false; ///< runs with different labels generate different tokens
  bool thorough = false;        ///< too slow for every run of the tests: only with the tag [thorough]
  std::vector<run_spec> runs;
};

/// Errors name file and reason.
core::result<std::vector<scenario>> read_scenarios(const std::filesystem::path& file);

} // namespace dualpath::scenarios

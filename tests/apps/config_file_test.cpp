#include "apps/config_file.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

using kind = config_key::kind;

const std::vector<config_key> known{{"cluster", kind::text},        {"agents", kind::integer},
                                    {"scale-tokens", kind::number}, {"no-progress", kind::flag},
                                    {"inject", kind::list},         {"snic-bandwidth", kind::text}};

std::string error_of(const std::string& text) {
  auto values = parse_config(text, "c.toml", known);
  if (values) return "no error";
  CHECK(values.error().code == core::errc::invalid_argument);
  return values.error().text;
}

} // namespace

TEST_CASE("keys are taken with dashes or underscores, at the top or in [run]") {
  auto values =
      parse_config("scale_tokens = 0.25\nagents = 4\n[run]\nno-progress = true\ninject = ['a', 'b']\n"
                   "snic_bandwidth = 0\n",
                   "c.toml", known);
  REQUIRE(values);
  CHECK(values->at("scale-tokens").values == std::vector<std::string>{"0.25"});
  CHECK(values->at("agents").values == std::vector<std::string>{"4"});
  CHECK(values->at("no-progress").values == std::vector<std::string>{"true"});
  CHECK(values->at("inject").values == std::vector<std::string>{"a", "b"});
  CHECK(values->at("snic-bandwidth").values == std::vector<std::string>{"0"});
  CHECK(values->at("inject").where == "c.toml:5");
}

TEST_CASE("an unknown key is an error that names the nearest known one") {
  CHECK(error_of("\ncluser = '1P1D'") == "c.toml:2: unknown key 'cluser'; did you mean 'cluster'?");
  CHECK(error_of("[run]\nsnic_bandwith = 1")
        == "c.toml:2: unknown key 'snic_bandwith'; did you mean 'snic-bandwidth'?");
  CHECK(error_of("zzzzzz = 1") == "c.toml:1: unknown key 'zzzzzz'");
  CHECK(error_of("[compare]\nagents = 1").find("unknown key 'compare'") != std::string::npos);
}

TEST_CASE("a wrong type is an error with file and line") {
  CHECK(error_of("agents = 'four'") == "c.toml:1: 'agents' must be a whole number");
  CHECK(error_of("agents = 1.5") == "c.toml:1: 'agents' must be a whole number");
  CHECK(error_of("agents = [1]") == "c.toml:1: 'agents' must be a whole number");
  CHECK(error_of("scale-tokens = true") == "c.toml:1: 'scale-tokens' must be a number");
  CHECK(error_of("no-progress = 1") == "c.toml:1: 'no-progress' must be true or false");
  CHECK(error_of("cluster = true") == "c.toml:1: 'cluster' must be a string");
  CHECK(error_of("inject = [true]") == "c.toml:1: 'inject' must be a list of strings");
}

TEST_CASE("a key set twice and broken TOML are errors with file and line") {
  CHECK(error_of("agents = 1\n[run]\nagents = 2") == "c.toml:3: 'agents' is set twice");
  CHECK(error_of("scale_tokens = 1\nscale-tokens = 2").find("'scale-tokens' is set twice")
        != std::string::npos);
  CHECK(error_of("agents = 1\ncluster = ").find("c.toml:2: ") == 0);
}

TEST_CASE("a configuration file that cannot be read is an error") {
  CHECK(read_config("/no/such.toml", known).error().text == "cannot read configuration file '/no/such.toml'");
  CHECK(read_config("/", known).error().text == "cannot read configuration file '/'");
}

TEST_CASE("the nearest name is the one of fewest edits, and none where all are far") {
  CHECK(nearest_name("polciy", {"policy", "policies"}) == "policy");
  CHECK(nearest_name("agent", {"agents", "arrival"}) == "agents");
  CHECK(nearest_name("frobnicate", {"policy", "seed"}).empty());
}

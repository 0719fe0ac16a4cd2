// Hidden: needs a real model and what transformers generates with it; scripts/check-real-model makes both
// ready.
#include "cpu_device_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

TEST_CASE("a real chat model generates the tokens of transformers", "[.][real-model]") {
  const char* dir = std::getenv("DUALPATH_REAL_MODEL");
  if (!dir) FAIL("DUALPATH_REAL_MODEL names no model folder; run scripts/check-real-model");
  std::ifstream file{std::string{dir} + "/expected-tokens.json"};
  REQUIRE(file);
  auto prompts = nlohmann::json::parse(file);
  REQUIRE_FALSE(prompts.empty());
  auto device = must_make(must_load(dir), {kv_dtype::f32, 64, 0, {}});
  for (const auto& prompt : prompts) {
    sequence tokens{prompt.at("tokens").get<std::vector<core::token_id>>()};
    auto expected = prompt.at("generated").get<std::vector<core::token_id>>();
    CHECK(generate(*device, tokens, static_cast<std::uint32_t>(expected.size()), {}) == expected);
  }
}

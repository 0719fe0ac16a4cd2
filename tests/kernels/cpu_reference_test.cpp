// The oracle is Hugging Face transformers: scripts/make-model-fixture computed the logits in fixtures/.
#include "cpu_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

namespace {

struct expected_prompt {
  sequence tokens;
  std::vector<std::uint32_t> rows;
  std::vector<std::vector<float>> logits;
};

std::vector<expected_prompt> read_expected(const std::string& name) {
  std::ifstream file{fixture_dir(name) + "/expected.json"};
  REQUIRE(file);
  std::vector<expected_prompt> prompts;
  auto expected = nlohmann::json::parse(file);
  for (const auto& prompt : expected.at("prompts")) {
    auto& to = prompts.emplace_back();
    to.tokens.append(prompt.at("tokens").get<std::vector<core::token_id>>());
    to.rows = prompt.at("rows").get<std::vector<std::uint32_t>>();
    to.logits = prompt.at("logits").get<std::vector<std::vector<float>>>();
  }
  REQUIRE(prompts.size() == 4);
  return prompts;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

} // namespace

TEST_CASE("logits are those of transformers, however the prompt is cut into chunks") {
  auto name = GENERATE(as<std::string>{}, "llama_mha", "llama_gqa_tied", "llama_head_dim_sharded",
                       "llama_mqa_v4", "qwen2_v4", "qwen2_tied");
  auto chunk = GENERATE(7U, 64U, 1024U);
  CAPTURE(name, chunk);
  forward_run run{must_load(fixture_dir(name))};
  for (const auto& prompt : read_expected(name)) {
    kv_memory kv{run.layout(), prompt.tokens.size()};
    auto logits = run.in_chunks(prompt.tokens, kv, chunk);
    for (std::size_t i = 0; i < prompt.rows.size(); ++i) {
      CAPTURE(prompt.tokens.size(), prompt.rows[i]);
      CHECK(largest_difference(logits[prompt.rows[i]], prompt.logits[i]) < 1e-4F);
    }
  }
}

TEST_CASE("KV in bf16 stays close to transformers in float32") {
  forward_run run{must_load(fixture_dir("llama_gqa_tied")), {kv_dtype::bf16}};
  for (const auto& prompt : read_expected("llama_gqa_tied")) {
    kv_memory kv{run.layout(), prompt.tokens.size()};
    auto logits = run.in_chunks(prompt.tokens, kv, 64);
    for (std::size_t i = 0; i < prompt.rows.size(); ++i)
      CHECK(largest_difference(logits[prompt.rows[i]], prompt.logits[i]) < 0.1F);
  }
}

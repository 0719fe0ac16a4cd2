#include "kernels/pattern/pattern_shape.hpp"

#include <catch2/catch.hpp>

using namespace dualpath;
using namespace dualpath::kernels;

namespace {

/// GB of stored KV loaded for every PFLOP computed: 429 appended tokens (spec §8).
double cache_compute_ratio(const pattern_shape& shape, std::uint64_t context) {
  auto loaded = static_cast<double>(context) * shape.layers * shape.token_bytes;
  return loaded / 1e9 / (prefill_flops(shape, context, 429) / 1e15);
}

} // namespace

TEST_CASE("the shapes have the cache-compute ratios of the paper") {
  auto qwen = *parse_pattern_shape("qwen2.5-32b");
  CHECK(cache_compute_ratio(qwen, 16384) == Approx(117).epsilon(0.03));
  CHECK(cache_compute_ratio(qwen, 65536) == Approx(267).epsilon(0.03));
  auto deepseek = *parse_pattern_shape("deepseek-v3.2");
  CHECK(cache_compute_ratio(deepseek, 16384) == Approx(12.6).epsilon(0.03));
  CHECK(cache_compute_ratio(deepseek, 65536) == Approx(35.9).epsilon(0.03));
}

TEST_CASE("the shapes have the KV bytes of their models") {
  auto [name, layers, token_bytes] =
      GENERATE(table<const char*, std::uint32_t, std::uint32_t>({{"qwen2.5-32b", 64, 4096},
                                                                 {"qwen3-235b-a22b", 94, 1024},
                                                                 {"deepseek-v3", 61, 656},
                                                                 {"deepseek-v3.2", 61, 656}}));
  auto shape = parse_pattern_shape(name);
  REQUIRE(shape);
  CHECK(shape->layers == layers);
  CHECK(shape->token_bytes == token_bytes);
  CHECK(shape->flops_per_token > 0);
}

TEST_CASE("a shape by its sizes costs as many FLOPs for its KV bytes as Qwen2.5-32B") {
  auto qwen = *parse_pattern_shape("qwen2.5-32b");
  auto quarter = *parse_pattern_shape("16x4096");
  CHECK(quarter.layers == 16);
  CHECK(quarter.token_bytes == 4096);
  CHECK(prefill_flops(quarter, 1000, 500) == Approx(prefill_flops(qwen, 1000, 500) / 4));
  CHECK(prefill_flops(*parse_pattern_shape("64x1024"), 9, 5) == Approx(prefill_flops(qwen, 9, 5) / 4));
}

TEST_CASE("FLOPs add up whatever the chunks") {
  auto name = GENERATE("qwen2.5-32b", "deepseek-v3.2");
  auto shape = *parse_pattern_shape(name);
  auto whole = prefill_flops(shape, 1500, 1000);
  CHECK(prefill_flops(shape, 1500, 300) + prefill_flops(shape, 1800, 700) == Approx(whole));
  CHECK(prefill_flops(shape, 1500, 600) + prefill_flops(shape, 2100, 400) == Approx(whole));
}

TEST_CASE("a shape that cannot be is refused with what can") {
  auto text = GENERATE("", "qwen", "0x4096", "16x0", "16x", "x16", "16x4096x2", "-1x5", "16x99999999",
                       "5000x8", "1e3x8");
  auto shape = parse_pattern_shape(text);
  REQUIRE_FALSE(shape);
  CHECK(shape.error().code == core::errc::invalid_argument);
  CHECK_THAT(shape.error().text, Catch::Contains("16x4096"));
}

#include "core/policy/cache_compute.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <iterator>

using namespace dualpath::core;

namespace {

struct figures {
  const char* model;
  double published_16k, published_64k, published_tolerance;
  double shapes_16k,
      shapes_64k; ///< what the shapes alone give, with the appended tokens' own triangle left out
};

constexpr figures all_figures[] = {
    {"Qwen2.5-32B", 117, 267, 0.05, 116, 265},     {"GPT-OSS-120B", 47, 95, 0.05, 46.7, 95.2},
    {"Qwen3-235B-A22B", 39, 60, 0.05, 38.9, 59.8}, {"DeepSeek-V3.2", 13, 36, 0.05, 12.6, 35.9},
    {"DeepSeek-V3", 4.8, 5.8, 0.13, 4.4, 5.2},
};

constexpr double append = 429;

const model_shape& model(const char* name) {
  auto* found = find_model(name);
  REQUIRE(found);
  return *found;
}

} // namespace

TEST_CASE("cache-compute ratios are the published ones at 16K and 64K") {
  for (const auto& f : all_figures) {
    INFO(f.model);
    double at_16k = cache_compute_ratio(model(f.model), 16384, append);
    double at_64k = cache_compute_ratio(model(f.model), 65536, append);
    CHECK(at_16k == Approx(f.published_16k).epsilon(f.published_tolerance));
    CHECK(at_64k == Approx(f.published_64k).epsilon(f.published_tolerance));
    CHECK(at_16k == Approx(f.shapes_16k).epsilon(0.015));
    CHECK(at_64k == Approx(f.shapes_64k).epsilon(0.015));
  }
  CHECK(published_models().size() == std::size(all_figures));
  CHECK(find_model("Qwen") == nullptr);
}

TEST_CASE("KV bytes of a token are those of the layouts") {
  CHECK(hit_kv_bytes(model("Qwen2.5-32B"), 1) == 64 * 4096);
  CHECK(hit_kv_bytes(model("DeepSeek-V3.2"), 1) == 61 * 656);
}

TEST_CASE("the ratio falls with the appended length and rises with the context") {
  for (const auto& m : published_models()) {
    INFO(m.name);
    double last = 1e9;
    for (double appended : {100, 429, 858, 1287, 10000}) {
      double ratio = cache_compute_ratio(m, 32768, appended);
      CHECK(ratio < last);
      last = ratio;
    }
    CHECK(cache_compute_ratio(m, 65536, append) > cache_compute_ratio(m, 16384, append));
  }
}

TEST_CASE("dual paths pay for a storage-bound cluster, as much as there are storage NICs for") {
  cluster_shape cluster{1, 2, 8, 1, 50e9, 500e9};
  auto v = dual_path_pays(model("Qwen2.5-32B"), {32768, 429}, cluster, 500e12);
  CHECK(v.pays);
  CHECK(v.basic_load_s == Approx(32768.0 * 64 * 4096 / 50e9));
  CHECK(v.dual_load_s == Approx(v.basic_load_s / 3));
  CHECK(v.compute_s < v.basic_load_s);
  CHECK(v.speedup == Approx(v.basic_load_s / std::max(v.compute_s, v.dual_load_s)));
  CHECK(v.sentence.find("pay") != std::string::npos);
}

TEST_CASE("dual paths do not pay where computing takes longer than loading") {
  cluster_shape cluster{2, 2, 8, 1, 50e9, 500e9};
  auto slow_gpu = dual_path_pays(model("Qwen2.5-32B"), {32768, 429}, cluster, 5e12);
  CHECK_FALSE(slow_gpu.pays);
  CHECK(slow_gpu.speedup == 1);
  CHECK(slow_gpu.sentence.find("computing is the bottleneck") != std::string::npos);
  auto long_append = dual_path_pays(model("DeepSeek-V3.2"), {32768, 20000}, cluster, 500e12);
  CHECK_FALSE(long_append.pays);
}

TEST_CASE("a low hit rate turns loading into computing and is named") {
  cluster_shape cluster{1, 1, 8, 1, 50e9, 500e9};
  auto& m = model("DeepSeek-V3.2");
  auto full = dual_path_pays(m, {32768, 429, 1}, cluster, 500e12);
  auto half = dual_path_pays(m, {32768, 429, 0.5}, cluster, 500e12);
  CHECK(full.pays);
  CHECK_FALSE(half.pays);
  CHECK(half.basic_load_s == Approx(full.basic_load_s / 2));
  CHECK(half.compute_s > full.compute_s);
  CHECK(half.sentence.find("hit rate of 50%") != std::string::npos);
}

TEST_CASE("a cluster out of the range of P/D is promised only what its bounds carry, and told so") {
  cluster_shape cluster{8, 1, 8, 1, 50e9, 500e9};
  auto v = dual_path_pays(model("Qwen2.5-32B"), {32768, 429}, cluster, 1e15);
  // 4.5 B against the 4 B that one decode node takes from prefill nodes alone.
  CHECK(v.basic_load_s / v.dual_load_s == Approx(4.5 / 4));
  CHECK(v.sentence.find("8P1D") != std::string::npos);
}

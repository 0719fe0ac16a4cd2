#include "cpu_fixture.hpp"

#include <bit>
#include <cstdlib>
#include <random>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

namespace {

constexpr std::uint32_t prompt_tokens = 300; // beyond a tile (64) and a segment (256)

std::uint64_t test_seed() {
  const char* text = std::getenv("DUALPATH_SEED");
  return text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits(std::span{a[i]}, std::span{b[i]})) return false;
  return true;
}

/// The result everything else is compared with: one chunk, one thread, this machine's best kernels.
struct whole_prompt {
  sequence tokens;
  kv_memory kv;
  std::vector<std::vector<float>> logits;

  whole_prompt(forward_run& run, std::uint32_t vocabulary)
      : tokens{random_tokens(prompt_tokens, vocabulary, 1)},
        kv{run.layout(), prompt_tokens},
        logits{run.in_chunks(tokens, kv, prompt_tokens)} {}
};

} // namespace

TEST_CASE("KV and logits are the same bits for every chunk size, thread count and KV type") {
  auto model = odd_model();
  auto type = GENERATE(kv_dtype::f32, kv_dtype::bf16);
  forward_run reference{model, {type}};
  whole_prompt expected{reference, model->config.vocabulary};
  for (std::uint32_t threads : {1U, 2U, 3U})
    for (std::uint32_t chunk : {1U, 7U, 64U, prompt_tokens}) {
      CAPTURE(to_string(type), threads, chunk);
      forward_run run{model, {type, 16, threads}};
      kv_memory kv{run.layout(), prompt_tokens};
      CHECK(same_bits(run.in_chunks(expected.tokens, kv, chunk), expected.logits));
      CHECK(kv == expected.kv);
    }
}

TEST_CASE("KV and logits are the same bits on every instruction set") {
  auto model = odd_model();
  auto type = GENERATE(kv_dtype::f32, kv_dtype::bf16);
  forward_run reference{model, {type}};
  whole_prompt expected{reference, model->config.vocabulary};
  for (const auto* kernels : available_kernels()) {
    CAPTURE(to_string(type), kernels->name);
    forward_run run{model, {type, 16, 1, kernels}};
    kv_memory kv{run.layout(), prompt_tokens};
    CHECK(same_bits(run.in_chunks(expected.tokens, kv, 90), expected.logits));
    CHECK(kv == expected.kv);
  }
}

TEST_CASE("logits do not depend on the block size") {
  auto model = odd_model();
  forward_run reference{model};
  whole_prompt expected{reference, model->config.vocabulary};
  for (std::uint32_t block_tokens : {1U, 5U, 64U, 512U}) {
    forward_run run{model, {kv_dtype::f32, block_tokens}};
    kv_memory kv{run.layout(), prompt_tokens};
    CHECK(same_bits(run.in_chunks(expected.tokens, kv, 50), expected.logits));
  }
}

TEST_CASE("the last tokens of a sequence compute the same bits without the ones whose KV is there") {
  auto model = odd_model();
  forward_run run{model};
  whole_prompt expected{run, model->config.vocabulary};
  constexpr std::uint32_t known_from = prompt_tokens - 7;
  sequence tail{known_from, expected.tokens.tokens(known_from, 7)};
  CHECK(tail.size() == prompt_tokens);
  kv_memory kv{run.layout(), prompt_tokens};
  run.compute(expected.tokens, kv, 0, known_from);
  auto logits = run.compute(tail, kv, known_from, 7);
  REQUIRE(logits.rows.size() == 7);
  for (std::size_t i = 0; i < 7; ++i)
    CHECK(same_bits(logits.row(i), std::span<const float>{expected.logits[known_from + i]}));
  CHECK(kv == expected.kv);
}

TEST_CASE("tokens that a sequence does not know cannot be computed") {
  auto model = odd_model();
  forward_run run{model};
  sequence tail{100, random_tokens(7, model->config.vocabulary, 1)};
  auto pass = run.forward().begin({batch_entry{&tail, 99, 1, 99, true, {}}});
  kv_memory kv{run.layout(), 107};
  std::vector<kv_view> views{kv.view};
  auto ran = run.forward().run_layers(*pass, 0, model->config.layers, views);
  REQUIRE_FALSE(ran);
  CHECK(ran.error().text.find("known from token 100") != std::string::npos);
}

TEST_CASE("a sequence computes the same bits alone and among any others") {
  auto seed = test_seed();
  INFO("DUALPATH_SEED=" << seed);
  std::mt19937_64 random{seed};
  auto model = odd_model();
  forward_run run{model, {kv_dtype::bf16, 16, 2}};
  whole_prompt expected{run, model->config.vocabulary};
  for (int round = 0; round < 6; ++round) {
    // The prompt in random chunks; every batch holds strangers too, some before it and some after, decoding
    // or prefilling.
    kv_memory kv{run.layout(), prompt_tokens};
    for (std::uint32_t first = 0; first < prompt_tokens;) {
      auto count = std::min<std::uint32_t>(1 + random() % 120, prompt_tokens - first);
      std::vector<sequence> others(random() % 4);
      std::vector<std::unique_ptr<kv_memory>> other_kv;
      std::vector<batch_entry> entries;
      std::vector<kv_view> views;
      for (auto& other : others) {
        auto length = static_cast<std::uint32_t>(1 + random() % 40);
        other.append(random_tokens(length, model->config.vocabulary, random()));
        other_kv.push_back(std::make_unique<kv_memory>(run.layout(), length));
        entries.push_back({&other, 0, length, 0, true, {}});
        views.push_back(other_kv.back()->view);
      }
      auto at = static_cast<std::ptrdiff_t>(random() % (entries.size() + 1));
      entries.insert(entries.begin() + at, {&expected.tokens, first, count, first, true, {}});
      views.insert(views.begin() + at, kv.view);
      auto pass = run.forward().begin(entries);
      auto logits = run.finish(*pass, views);
      for (std::size_t i = 0; i < logits.rows.size(); ++i) {
        const auto& row = pass->rows()[logits.rows[i]];
        if (row.entry != static_cast<std::uint32_t>(at)) continue;
        REQUIRE(same_bits(logits.row(i), std::span<const float>{expected.logits[row.position]}));
      }
      first += count;
    }
    CHECK(kv == expected.kv);
  }
}

TEST_CASE("KV loaded into other memory continues with the same bits as KV computed in place") {
  auto model = odd_model();
  auto type = GENERATE(kv_dtype::f32, kv_dtype::bf16);
  forward_run run{model, {type}};
  whole_prompt expected{run, model->config.vocabulary};
  kv_memory loaded{run.layout(), prompt_tokens};
  for (std::size_t block = 0; block < 256 / 16; ++block) loaded.blocks[block] = expected.kv.blocks[block];
  for (std::size_t block = 0; block < loaded.blocks.size(); ++block)
    loaded.view.blocks[block] = loaded.blocks[block].data();
  auto logits = run.compute(expected.tokens, loaded, 256, prompt_tokens - 256);
  for (std::size_t i = 0; i < logits.rows.size(); ++i)
    CHECK(same_bits(logits.row(i), std::span<const float>{expected.logits[256 + i]}));
  CHECK(loaded == expected.kv);
}

TEST_CASE("layers one at a time through single-layer staging give the KV of all at once") {
  auto model = odd_model();
  forward_run run{model};
  whole_prompt expected{run, model->config.vocabulary};
  auto layout = run.layout();
  auto pass = run.forward().begin({batch_entry{&expected.tokens, 0, prompt_tokens, 0, true, {}}});
  for (std::uint32_t layer = 0; layer < layout.layers; ++layer) {
    kv_memory staging{{1, layout.block_tokens, layout.token_bytes}, prompt_tokens};
    staging.view.layer_stride_bytes = 0;
    REQUIRE(run.forward().run_layers(*pass, layer, 1, std::span{&staging.view, 1}));
    for (std::size_t block = 0; block < staging.blocks.size(); ++block) {
      auto rows = std::min<std::uint64_t>(16, prompt_tokens - block * 16) * layout.token_bytes;
      CHECK(std::memcmp(staging.blocks[block].data(),
                        expected.kv.blocks[block].data() + layout.layer_offset(layer), rows)
            == 0);
    }
  }
}

TEST_CASE("a cached row that changes changes the logits after it") {
  // Without this, the comparisons above could hold because cached rows are never read.
  auto model = odd_model();
  forward_run run{model};
  whole_prompt expected{run, model->config.vocabulary};
  auto layout = run.layout();
  auto layer = GENERATE(0U, 1U);
  auto position = GENERATE(0U, 63U, 64U, 298U);
  CAPTURE(layer, position);
  auto* row = expected.kv.view.blocks[layout.block_of(position)] + layout.layer_offset(layer)
              + layout.row_offset(position);
  auto half = layout.token_bytes / 2;
  for (std::uint32_t i = 0; i < layout.token_bytes; i += 4) {
    float value = i < half ? 0.5F : -0.5F;
    std::memcpy(row + i, &value, 4);
  }
  auto logits = run.compute(expected.tokens, expected.kv, prompt_tokens - 1, 1);
  CHECK_FALSE(same_bits(logits.row(0), std::span<const float>{expected.logits.back()}));
}

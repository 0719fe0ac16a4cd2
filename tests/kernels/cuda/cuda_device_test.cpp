#include "kernels/cuda/cuda_device.hpp"
#include "tests/kernels/cpu_fixture.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <iostream>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

namespace {

constexpr std::uint32_t block_tokens = 16;

bool have_device() {
  if (cuda_device_count() > 0) return true;
  std::cout << "skipped: no CUDA device\n";
  return false;
}

std::unique_ptr<compute_device> cuda_of(const std::shared_ptr<const model_weights>& model,
                                        kv_dtype type = kv_dtype::f32) {
  auto made = make_cuda_device(model, {type, block_tokens, 0});
  if (!made) FAIL(made.error().text);
  return std::move(*made);
}

std::unique_ptr<compute_device> cpu_of(const std::shared_ptr<const model_weights>& model,
                                       kv_dtype type = kv_dtype::f32) {
  auto made = make_cpu_device(model, {type, block_tokens, 2, nullptr});
  if (!made) FAIL(made.error().text);
  return std::move(*made);
}

core::result<void> copy(compute_device& device, std::byte* to, const std::byte* from, std::uint64_t bytes) {
  std::promise<core::result<void>> promise;
  device.copy({{to, from, bytes}}, [&](auto outcome) { promise.set_value(std::move(outcome)); });
  return promise.get_future().get();
}

/// Full Blocks of one sequence in the memory of a device.
class device_kv {
public:
  device_kv(compute_device& device, std::uint64_t tokens) : device_{device} {
    auto layout = device.layout();
    auto made = device.allocate(layout.blocks_for(tokens) * layout.full_block_bytes());
    if (!made) FAIL(made.error().text);
    memory_ = std::move(*made);
    view.layer_stride_bytes = layout.layer_block_bytes();
    for (std::uint64_t i = 0; i < layout.blocks_for(tokens); ++i)
      view.blocks.push_back(memory_->bytes().data() + i * layout.full_block_bytes());
  }
  std::vector<std::byte> on_host() {
    std::vector<std::byte> bytes(memory_->bytes().size());
    auto copied = copy(device_, bytes.data(), memory_->bytes().data(), bytes.size());
    if (!copied) FAIL(copied.error().text);
    return bytes;
  }
  kv_view view;

private:
  compute_device& device_;
  std::unique_ptr<device_memory> memory_;
};

core::result<void> run(compute_device& device, forward_pass& pass, std::uint32_t first, std::uint32_t count,
                       std::vector<kv_view> views) {
  std::promise<core::result<void>> promise;
  device.run_layers(pass, first, count, std::move(views),
                    [&](auto outcome) { promise.set_value(std::move(outcome)); });
  return promise.get_future().get();
}

std::vector<core::token_id> sample(compute_device& device, forward_pass& pass) {
  std::promise<core::result<std::vector<core::token_id>>> promise;
  device.sample(pass, [&](auto outcome) { promise.set_value(std::move(outcome)); });
  auto outcome = promise.get_future().get();
  if (!outcome) FAIL(outcome.error().text);
  return *outcome;
}

core::token_id compute(compute_device& device, const sequence& tokens, device_kv& kv, std::uint32_t first,
                       std::uint32_t count, sampling how = {}) {
  auto pass = device.begin({batch_entry{&tokens, first, count, first, true, how}});
  auto ran = run(device, *pass, 0, device.model().layers, {kv.view});
  if (!ran) FAIL(ran.error().text);
  return sample(device, *pass).front();
}

std::shared_ptr<const model_weights> model_of(std::uint32_t query_heads, std::uint32_t kv_heads,
                                              std::uint32_t head_dim) {
  model_config config;
  config.architecture = "Qwen2ForCausalLM";
  config.layers = 1;
  config.hidden = 40;
  config.intermediate = 70;
  config.query_heads = query_heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  config.vocabulary = 97;
  config.max_tokens = 4096;
  config.qkv_bias = true;
  auto model = build_weights("heads", config, *make_random_tensors(config, 3));
  if (!model) FAIL(model.error().text);
  return *model;
}

} // namespace

TEST_CASE("without a GPU, making a CUDA device says so") {
  if (cuda_device_count() > 0) return;
  auto made = make_cuda_device(odd_model(), {});
  REQUIRE_FALSE(made);
  CHECK(made.error().code == core::errc::unsupported);
  CHECK_THAT(made.error().text, Catch::Contains("no CUDA device"));
}

TEST_CASE("the CUDA device gives the KV rows and tokens of the CPU device, bit for bit") {
  if (!have_device()) return;
  auto [model, type] =
      GENERATE(table<std::shared_ptr<const model_weights>, kv_dtype>({{odd_model(), kv_dtype::f32},
                                                                      {odd_model(), kv_dtype::bf16},
                                                                      {model_of(4, 2, 128), kv_dtype::bf16},
                                                                      {model_of(20, 1, 64), kv_dtype::f32},
                                                                      {model_of(2, 2, 256), kv_dtype::f32}}));
  auto cuda = cuda_of(model, type);
  auto cpu = cpu_of(model, type);
  // Beyond one attention segment; the last tokens go one by one, as in decode.
  constexpr std::uint32_t count = 275, prompt = 272;
  sequence tokens{random_tokens(count, model->config.vocabulary, 1)};
  device_kv on_gpu{*cuda, count}, on_cpu{*cpu, count};
  for (std::uint32_t first = 0; first < count;) {
    auto step = first == 0 ? prompt : 1;
    sampling how{first % 2 ? 0.9F : 0.0F, 7};
    CHECK(compute(*cuda, tokens, on_gpu, first, step, how)
          == compute(*cpu, tokens, on_cpu, first, step, how));
    first += step;
  }
  CHECK(on_gpu.on_host() == on_cpu.on_host());
}

TEST_CASE("CUDA rows do not depend on chunks, on the batch, or on layers at a time") {
  if (!have_device()) return;
  auto model = odd_model();
  auto cuda = cuda_of(model);
  // Each product kernel has its turn: for 1, 4, 8, 64 and more rows.
  constexpr std::uint32_t count = 141;
  sequence tokens{random_tokens(count, 131, 2)}, other{random_tokens(70, 131, 3)};
  device_kv whole{*cuda, count};
  auto token = compute(*cuda, tokens, whole, 0, count);
  auto chunk = GENERATE(4U, 7U, 60U, 140U);
  device_kv chunked{*cuda, count}, beside{*cuda, 70};
  auto done = count % chunk == 0 ? count - chunk : count / chunk * chunk;
  for (std::uint32_t first = 0; first < done; first += chunk) compute(*cuda, tokens, chunked, first, chunk);
  auto batch = cuda->begin(
      {batch_entry{&other, 0, 70, 0, true, {}}, batch_entry{&tokens, done, count - done, 0, true, {}}});
  for (std::uint32_t layer = 0; layer < model->config.layers; ++layer)
    REQUIRE(run(*cuda, *batch, layer, 1, {beside.view, chunked.view}));
  auto sampled = sample(*cuda, *batch);
  REQUIRE(sampled.size() == 2);
  CHECK(sampled[1] == token);
  CHECK(chunked.on_host() == whole.on_host());
  device_kv alone{*cuda, 70};
  CHECK(compute(*cuda, other, alone, 0, 70) == sampled[0]);
  CHECK(alone.on_host() == beside.on_host());
}

TEST_CASE("a batch of more rows than go through a layer together is computed like a smaller one") {
  if (!have_device()) return;
  auto model = model_of(1, 1, 16);
  auto cuda = cuda_of(model);
  constexpr std::uint32_t count = 1100;
  sequence tokens{random_tokens(count, 97, 4)};
  device_kv whole{*cuda, count}, halves{*cuda, count};
  auto token = compute(*cuda, tokens, whole, 0, count);
  compute(*cuda, tokens, halves, 0, 700);
  CHECK(compute(*cuda, tokens, halves, 700, count - 700) == token);
  CHECK(halves.on_host() == whole.on_host());
}

TEST_CASE("what the CUDA device cannot do is refused in a sentence, and it goes on") {
  if (!have_device()) return;
  auto model = odd_model();
  auto cuda = cuda_of(model);
  sequence tokens{random_tokens(20, 131, 5)};
  sequence foreign{std::vector<core::token_id>{1, 131}};
  device_kv kv{*cuda, 20};
  std::vector<std::byte> host(2 * cuda->layout().full_block_bytes());
  kv_view on_host{{host.data(), host.data() + host.size() / 2}, cuda->layout().layer_block_bytes()};
  auto refused = [&](batch_entry entry, std::vector<kv_view> views, std::uint32_t first_layer) {
    auto pass = cuda->begin({entry});
    auto outcome = run(*cuda, *pass, first_layer, 2 - first_layer, std::move(views));
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == core::errc::invalid_argument);
    return outcome.error().text;
  };
  CHECK_THAT(refused({&tokens, 0, 20, 0, false, {}}, {on_host}, 0), Catch::Contains("cannot reach"));
  CHECK_THAT(refused({&tokens, 0, 20, 0, false, {}}, {kv.view}, 1), Catch::Contains("layer 0 of 2 is next"));
  CHECK_THAT(refused({&tokens, 0, 21, 0, false, {}}, {kv.view}, 0), Catch::Contains("sequence of 20"));
  CHECK_THAT(refused({&foreign, 0, 2, 0, false, {}}, {kv.view}, 0), Catch::Contains("token id 131"));
  CHECK_THAT(refused({&tokens, 0, 20, 0, false, {}}, {{{kv.view.blocks[0]}, 1}}, 0),
             Catch::Contains("needs 2"));
  CHECK_THAT(refused({&tokens, 0, 20, 0, false, {}}, {}, 0), Catch::Contains("0 KV views"));
  auto too_much = cuda->allocate(std::uint64_t{1} << 50);
  REQUIRE_FALSE(too_much);
  CHECK(too_much.error().code == core::errc::no_space);
  auto absent = make_cuda_device(model, {kv_dtype::f32, block_tokens, 99});
  REQUIRE_FALSE(absent);
  CHECK_THAT(absent.error().text, Catch::Contains("99"));
  auto wide = make_cuda_device(model_of(1, 1, 264), {kv_dtype::f32, block_tokens, 0});
  REQUIRE_FALSE(wide);
  CHECK(wide.error().code == core::errc::unsupported);
  compute(*cuda, tokens, kv, 0, 20);
}

TEST_CASE("CUDA memory is zeroed, and copies go between host and device in any direction") {
  if (!have_device()) return;
  auto cuda = cuda_of(odd_model());
  auto memory = cuda->allocate(8192);
  REQUIRE(memory);
  auto* device = (*memory)->bytes().data();
  std::vector<std::byte> from(100, std::byte{5}), to(8192, std::byte{1});
  REQUIRE(copy(*cuda, device + 10, from.data(), from.size()));
  REQUIRE(copy(*cuda, device + 5000, device + 10, 50));
  REQUIRE(copy(*cuda, to.data(), device, to.size()));
  CHECK(std::count(to.begin(), to.end(), std::byte{5}) == 150);
  CHECK(std::count(to.begin(), to.end(), std::byte{0}) == 8192 - 150);
}

TEST_CASE("operations of a CUDA device that ends complete once, as done or as closed") {
  if (!have_device()) return;
  auto cuda = cuda_of(odd_model());
  sequence tokens{random_tokens(20, 131, 5)};
  device_kv kv{*cuda, 20};
  std::array<std::atomic<int>, 20> calls{};
  std::array<std::unique_ptr<forward_pass>, 20> passes;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    passes[i] = cuda->begin({batch_entry{&tokens, 0, 20, 0, false, {}}});
    cuda->run_layers(*passes[i], 0, 2, {kv.view}, [&, i](core::result<void> outcome) {
      if (outcome || outcome.error().code == core::errc::closed) ++calls[i];
    });
  }
  cuda.reset();
  for (auto& count : calls) CHECK(count == 1);
}

TEST_CASE("rows of a CUDA device and of a CPU device are not taken for each other") {
  if (!have_device()) return;
  auto model = odd_model();
  CHECK(cuda_of(model)->model().fingerprint != cpu_of(model)->model().fingerprint);
}

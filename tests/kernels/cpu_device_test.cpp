#include "cpu_device_fixture.hpp"

#include <future>
#include <limits>
#include <optional>
#include <set>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

TEST_CASE("the device tells the model's facts and a fingerprint that depends on the KV type") {
  auto model = must_load("tiny");
  auto f32 = must_make(model, {kv_dtype::f32, 64, 1, {}});
  auto bf16 = must_make(model, {kv_dtype::bf16, 64, 1, {}});
  CHECK(f32->model().name == "tiny");
  CHECK(f32->model().layers == 4);
  CHECK(f32->model().vocabulary == 512);
  CHECK(f32->model().token_bytes == 2 * 2 * 16 * 4);
  CHECK(bf16->model().token_bytes == 2 * 2 * 16 * 2);
  CHECK(f32->model().fingerprint != bf16->model().fingerprint);
  CHECK(f32->predicted_seconds(0, 100) < 0);
}

TEST_CASE("generated tokens are the same on devices of any thread count, alone and sharing a pool") {
  auto model = must_load("tiny");
  sequence prompt{random_tokens(100, 512, 3)};
  auto how = GENERATE(sampling{}, sampling{0.8F, 42});
  auto expected = generate(*must_make(model, {kv_dtype::f32, 64, 1, {}}), prompt, 20, how);
  auto pool = std::make_shared<thread_pool>(2);
  auto one = must_make(model, {kv_dtype::f32, 16, 0, pool});
  auto two = must_make(model, {kv_dtype::f32, 64, 0, pool});
  auto other = std::async(std::launch::async, [&] { return generate(*two, prompt, 20, how); });
  CHECK(generate(*one, prompt, 20, how) == expected);
  CHECK(other.get() == expected);
}

TEST_CASE("greedy text of the tiny model neither repeats one token nor depends on nothing") {
  auto device = must_make(must_load("tiny"), {kv_dtype::f32, 64, 1, {}});
  auto a = generate(*device, sequence{random_tokens(50, 512, 1)}, 60, {});
  auto b = generate(*device, sequence{random_tokens(50, 512, 2)}, 60, {});
  CHECK(a != b);
  CHECK(std::set<core::token_id>(a.begin(), a.end()).size() > 15);
  CHECK(std::set<core::token_id>(b.begin(), b.end()).size() > 15);
}

TEST_CASE("one token is sampled per entry that wants one, in entry order") {
  auto model = must_load("tiny");
  auto device = must_make(model, {kv_dtype::f32, 16, 2, {}});
  sequence a{random_tokens(30, 512, 1)};
  sequence b{random_tokens(7, 512, 2)};
  sequence c{random_tokens(20, 512, 3)};
  kv_memory kv_a{device->layout(), 30};
  kv_memory kv_b{device->layout(), 7};
  kv_memory kv_c{device->layout(), 20};
  auto pass = device->begin({batch_entry{&a, 0, 30, 0, true, {}}, batch_entry{&b, 0, 7, 0, false, {}},
                             batch_entry{&c, 0, 20, 0, true, {}}});
  REQUIRE(run_layers(*device, *pass, 0, 4, {kv_a.view, kv_b.view, kv_c.view}));
  auto tokens = sample(*device, *pass);
  REQUIRE(tokens);
  CHECK(*tokens == std::vector{generate(*device, a, 1, {})[0], generate(*device, c, 1, {})[0]});
}

TEST_CASE("what cannot be computed is refused by name through the completion") {
  auto model = must_load("tiny");
  auto device = must_make(model, {kv_dtype::f32, 16, 1, {}});
  sequence good{random_tokens(40, 512, 1)};
  auto bad_tokens = random_tokens(40, 512, 1);
  bad_tokens[33] = 512;
  sequence bad{bad_tokens};
  kv_memory kv{device->layout(), 40};
  auto few = kv.view;
  few.blocks.resize(2);
  auto null_block = kv.view;
  null_block.blocks[1] = nullptr;
  auto single_layer = kv.view;
  single_layer.layer_stride_bytes = 0;
  struct refusal {
    batch_entry entry;
    kv_view view;
    std::string text;
  };
  batch_entry whole{&good, 0, 40, 0, true, {}};
  const std::vector<refusal> refusals{
      {{&bad, 0, 40, 0, true, {}}, kv.view, "token id 512"},
      {{&good, 20, 21, 0, true, {}}, kv.view, "up to token 41 of a sequence of 40"},
      {{&good, 4294967295U, 2, 0, true, {}}, kv.view, "up to token 4294967297"},
      {{&good, 20, 0, 0, true, {}}, kv.view, "computes no token"},
      {{nullptr, 0, 1, 0, true, {}}, kv.view, "no sequence"},
      {whole, few, "2 blocks but needs 3"},
      {whole, null_block, "null block"},
      {whole, single_layer, "holds one layer but 4"},
  };
  for (const auto& refused : refusals) {
    CAPTURE(refused.text);
    auto pass = device->begin({refused.entry});
    auto ran = run_layers(*device, *pass, 0, 4, {refused.view});
    REQUIRE_FALSE(ran);
    CHECK(ran.error().code == core::errc::invalid_argument);
    CHECK_THAT(ran.error().text, Catch::Contains(refused.text));
    CHECK_FALSE(sample(*device, *pass));
  }
}

TEST_CASE("passes out of order are refused") {
  auto device = must_make(must_load("tiny"), {kv_dtype::f32, 16, 1, {}});
  sequence tokens{random_tokens(10, 512, 1)};
  kv_memory kv{device->layout(), 10};
  auto pass = device->begin({batch_entry{&tokens, 0, 10, 0, true, {}}});
  CHECK_FALSE(run_layers(*device, *pass, 1, 1, {kv.view}));
  CHECK_FALSE(run_layers(*device, *pass, 0, 5, {kv.view}));
  CHECK_FALSE(run_layers(*device, *pass, 0, 0, {kv.view}));
  CHECK_FALSE(run_layers(*device, *pass, 0, 4, {}));
  CHECK_FALSE(sample(*device, *pass));
  CHECK(run_layers(*device, *pass, 0, 4, {kv.view}));
  CHECK(sample(*device, *pass));
  auto empty = device->begin({});
  CHECK_FALSE(run_layers(*device, *empty, 0, 4, {}));
}

TEST_CASE("a sequence longer than the model takes is refused") {
  auto config = preset_config(model_preset::tiny);
  config.max_tokens = 32;
  auto model = build_weights("short", config, *make_random_tensors(config, 0));
  REQUIRE(model);
  auto device = must_make(*model, {kv_dtype::f32, 16, 1, {}});
  sequence tokens{random_tokens(33, 512, 1)};
  kv_memory kv{device->layout(), 33};
  auto fits = device->begin({batch_entry{&tokens, 0, 32, 0, true, {}}});
  CHECK(run_layers(*device, *fits, 0, 4, {kv.view}));
  auto pass = device->begin({batch_entry{&tokens, 0, 33, 0, true, {}}});
  auto ran = run_layers(*device, *pass, 0, 4, {kv.view});
  REQUIRE_FALSE(ran);
  CHECK_THAT(ran.error().text, Catch::Contains("at most 32"));
}

TEST_CASE("damaged KV that makes logits not finite is an error, not a token") {
  auto device = must_make(must_load("tiny"), {kv_dtype::f32, 16, 1, {}});
  sequence tokens{random_tokens(40, 512, 1)};
  kv_memory kv{device->layout(), 40};
  auto prefix = device->begin({batch_entry{&tokens, 0, 39, 0, false, {}}});
  REQUIRE(run_layers(*device, *prefix, 0, 4, {kv.view}));
  auto value = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  std::memcpy(kv.view.blocks[1] + 3 * device->model().token_bytes, &value, 4);
  auto pass = device->begin({batch_entry{&tokens, 39, 1, 0, true, {}}});
  REQUIRE(run_layers(*device, *pass, 0, 4, {kv.view}));
  auto token = sample(*device, *pass);
  REQUIRE_FALSE(token);
  CHECK_THAT(token.error().text, Catch::Contains("position 39"));
}

TEST_CASE("device memory is page-aligned, zero at first, and copied exactly") {
  auto device = must_make(must_load("tiny"), {kv_dtype::f32, 16, 1, {}});
  auto memory = device->allocate(10'000);
  REQUIRE(memory);
  auto bytes = (*memory)->bytes();
  CHECK(bytes.size() == 10'000);
  CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096 == 0);
  CHECK(std::ranges::all_of(bytes, [](auto b) { return b == std::byte{0}; }));
  std::vector<std::byte> host(300, std::byte{7});
  std::vector<std::byte> back(300);
  std::promise<core::result<void>> there, again;
  device->copy({{bytes.data() + 1, host.data(), 100}, {bytes.data() + 4096, host.data() + 100, 200}},
               [&](auto result) { there.set_value(std::move(result)); });
  REQUIRE(there.get_future().get());
  device->copy({{back.data(), bytes.data() + 1, 100}, {back.data() + 100, bytes.data() + 4096, 200}},
               [&](auto result) { again.set_value(std::move(result)); });
  REQUIRE(again.get_future().get());
  CHECK(back == host);
  CHECK(bytes[0] == std::byte{0});
  CHECK(bytes[101] == std::byte{0});
  CHECK_FALSE(device->allocate(0));
  CHECK_FALSE(device->allocate(std::uint64_t{1} << 62));
}

TEST_CASE("a block size of zero is refused") {
  CHECK_FALSE(make_cpu_device(must_load("tiny"), {kv_dtype::f32, 0, 1, {}}));
}

TEST_CASE("every completion is called once when the device ends, also inside one of them") {
  auto inside = GENERATE(false, true);
  auto device = must_make(must_load("tiny"), {kv_dtype::f32, 16, 1, {}});
  sequence tokens{random_tokens(10, 512, 1)};
  kv_memory kv{device->layout(), 10};
  auto pass = device->begin({batch_entry{&tokens, 0, 10, 0, true, {}}});
  std::promise<void> submitted, ended;
  std::vector<std::optional<core::errc>> outcomes;
  auto note = [&](const core::result<void>& result) {
    outcomes.push_back(result ? std::nullopt : std::optional{result.error().code});
  };
  device->run_layers(*pass, 0, 1, {kv.view}, [&, ready = submitted.get_future().share()](auto result) {
    ready.wait();
    note(result);
    if (!inside) return;
    device.reset();
    ended.set_value();
  });
  device->run_layers(*pass, 1, 1, {kv.view}, note);
  device->run_layers(*pass, 2, 1, {kv.view}, note);
  submitted.set_value();
  if (inside) ended.get_future().get();
  device.reset();
  REQUIRE(outcomes.size() == 3);
  // Outside, the end may come before the first operation or after the last.
  for (auto outcome : outcomes) CHECK((!outcome || *outcome == core::errc::closed));
  if (!inside) return;
  CHECK_FALSE(outcomes[0].has_value());
  CHECK(outcomes[2] == core::errc::closed);
}

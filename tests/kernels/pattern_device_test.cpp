#include "pattern_fixture.hpp"

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::pattern_test;

TEST_CASE("pattern KV and tokens do not depend on chunks, batch, layers at a time or staging") {
  auto seed = test_seed();
  INFO("DUALPATH_SEED=" << seed);
  std::mt19937_64 random{seed};
  core::steady_clock clock;
  auto device = make_pattern_device({clock, small_shape(), 8});
  auto layers = device->model().layers;
  sequence first{random_tokens(random, 61, 997)}, second{random_tokens(random, 40, 997)};

  full_blocks whole{device->layout(), 61};
  auto pass = device->begin({batch_entry{&first, 0, 61, 0, true, {}}});
  REQUIRE(run(*device, *pass, 0, layers, {whole.view()}));
  auto token = sample(*device, *pass);
  REQUIRE(token);

  full_blocks chunked{device->layout(), 61}, other{device->layout(), 40};
  auto cut = static_cast<std::uint32_t>(1 + random() % 60);
  REQUIRE(compute(*device, first, chunked, 0, cut, 0));
  // The second chunk goes layer by layer, beside another sequence, through staging that holds one layer at a
  // time.
  auto batch = device->begin(
      {batch_entry{&second, 0, 40, 0, false, {}}, batch_entry{&first, cut, 61 - cut, 0, true, {}}});
  auto view = chunked.view();
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    kv_view staged{view.blocks, 0};
    for (auto& block : staged.blocks) block += device->layout().layer_offset(layer);
    REQUIRE(run(*device, *batch, layer, 1, {other.view(), staged}));
  }
  auto batched = sample(*device, *batch);
  REQUIRE(batched);
  CHECK(*batched == *token);
  CHECK(chunked == whole);
}

TEST_CASE("one wrong byte anywhere in cached rows is found and named") {
  auto seed = test_seed();
  INFO("DUALPATH_SEED=" << seed);
  std::mt19937_64 random{seed};
  core::steady_clock clock;
  auto device = make_pattern_device({clock, small_shape(), 8});
  sequence tokens{random_tokens(random, 60, 997)};
  full_blocks kv{device->layout(), 60};
  REQUIRE(compute(*device, tokens, kv, 0, 60, 0));
  for (int round = 0; round < 200; ++round) {
    auto first = static_cast<std::uint32_t>(1 + random() % 59);
    auto position = static_cast<std::uint32_t>(random() % first);
    auto layer = static_cast<std::uint32_t>(random() % 3);
    auto index = random() % 45;
    auto flip = static_cast<std::byte>(1 + random() % 255);
    kv.row(layer, position)[index] ^= flip;
    auto outcome = compute(*device, tokens, kv, first, 60 - first, 0);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == core::errc::corrupt_kv);
    CHECK_THAT(outcome.error().text,
               Catch::Contains("position " + std::to_string(position) + ", layer " + std::to_string(layer)
                               + ", byte " + std::to_string(index)));
    kv.row(layer, position)[index] ^= flip;
    REQUIRE(compute(*device, tokens, kv, first, 60 - first, 0));
  }
}

TEST_CASE("KV of another prompt, position or layer is not taken for the right one") {
  std::mt19937_64 random{7};
  core::steady_clock clock;
  auto device = make_pattern_device({clock, small_shape(), 8});
  auto mine = random_tokens(random, 40, 997);
  auto theirs = mine;
  theirs[3] ^= 1;
  full_blocks kv{device->layout(), 40};
  REQUIRE(compute(*device, sequence{theirs}, kv, 0, 40, 0));
  auto wrong_from = compute(*device, sequence{mine}, kv, 32, 8, 0);
  REQUIRE_FALSE(wrong_from);
  CHECK_THAT(wrong_from.error().text, Catch::Contains("position 3, layer 0"));

  sequence tokens{mine};
  REQUIRE(compute(*device, tokens, kv, 0, 40, 0));
  auto swap_rows = [&](std::uint32_t layer_a, std::uint32_t position_a, std::uint32_t layer_b,
                       std::uint32_t position_b) {
    auto a = kv.row(layer_a, position_a), b = kv.row(layer_b, position_b);
    std::swap_ranges(a.begin(), a.end(), b.begin());
  };
  swap_rows(1, 5, 1, 6);
  CHECK_FALSE(compute(*device, tokens, kv, 32, 8, 0));
  swap_rows(1, 5, 1, 6);
  swap_rows(0, 9, 2, 9);
  CHECK_FALSE(compute(*device, tokens, kv, 32, 8, 0));
  swap_rows(0, 9, 2, 9);
  CHECK(compute(*device, tokens, kv, 32, 8, 0));
}

TEST_CASE("cached rows that were seen before are not checked again") {
  std::mt19937_64 random{3};
  core::steady_clock clock;
  auto device = make_pattern_device({clock, small_shape(), 8});
  sequence tokens{random_tokens(random, 40, 997)};
  full_blocks kv{device->layout(), 40};
  REQUIRE(compute(*device, tokens, kv, 0, 40, 0));
  kv.row(2, 11)[0] ^= std::byte{1};
  CHECK_FALSE(compute(*device, tokens, kv, 24, 16, 11));
  CHECK(compute(*device, tokens, kv, 24, 16, 12));
  CHECK(compute(*device, tokens, kv, 24, 16, 24));
}

TEST_CASE("the sampled token depends on prompt, model and seed, the seed only above temperature 0") {
  core::steady_clock clock;
  auto shape = small_shape();
  auto token = [&](sequence tokens, sampling how) {
    auto device = make_pattern_device({clock, shape, 8});
    full_blocks kv{device->layout(), tokens.size()};
    auto pass = device->begin({batch_entry{&tokens, 0, tokens.size(), 0, true, how}});
    REQUIRE(run(*device, *pass, 0, 3, {kv.view()}));
    auto outcome = sample(*device, *pass);
    REQUIRE(outcome);
    REQUIRE(outcome->size() == 1);
    CHECK(outcome->front() < shape.vocabulary);
    return outcome->front();
  };
  std::vector<core::token_id> prompt{1, 2, 3}, other{2, 2, 3};
  auto greedy = token(sequence{prompt}, {});
  CHECK(token(sequence{prompt}, {0, 5}) == greedy);
  CHECK(token(sequence{other}, {}) != greedy);
  CHECK(token(sequence{prompt}, {0.8f, 5}) != token(sequence{prompt}, {0.8f, 6}));
  shape.name = "another";
  CHECK(token(sequence{prompt}, {}) != greedy);
}

TEST_CASE("a pass that cannot be computed fails with a sentence, and the device goes on") {
  core::steady_clock clock;
  auto shape = small_shape();
  shape.max_tokens = 32;
  auto device = make_pattern_device({clock, shape, 8});
  sequence tokens{std::vector<core::token_id>(40, 1)};
  full_blocks kv{device->layout(), 40};
  auto refused = [&](batch_entry entry, std::vector<kv_view> views, std::uint32_t first_layer) {
    auto pass = device->begin({entry});
    auto outcome = run(*device, *pass, first_layer, 1, std::move(views));
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == core::errc::invalid_argument);
    return outcome.error().text;
  };
  CHECK_THAT(refused({&tokens, 0, 40, 0, false, {}}, {kv.view()}, 0), Catch::Contains("at most 32"));
  CHECK_THAT(refused({&tokens, 38, 3, 0, false, {}}, {kv.view()}, 0), Catch::Contains("41 tokens"));
  CHECK_THAT(refused({&tokens, 0, 0, 0, false, {}}, {kv.view()}, 0), Catch::Contains("tokens"));
  CHECK_THAT(refused({&tokens, 0, 8, 0, false, {}}, {}, 0), Catch::Contains("0 KV views"));
  CHECK_THAT(refused({&tokens, 0, 9, 0, false, {}}, {{{kv.view().blocks[0]}, 0}}, 0),
             Catch::Contains("needs 2"));
  CHECK_THAT(refused({&tokens, 0, 8, 0, false, {}}, {{{nullptr}, 0}}, 0), Catch::Contains("block 0"));
  CHECK_THAT(refused({&tokens, 0, 8, 0, false, {}}, {kv.view()}, 1), Catch::Contains("layer 0 of 3 is next"));
  auto early = device->begin({batch_entry{&tokens, 0, 8, 0, true, {}}});
  CHECK_FALSE(sample(*device, *early));
  CHECK(compute(*device, tokens, kv, 0, 32, 0));
}

TEST_CASE("copies move bytes between any two places, and device memory is aligned and zeroed") {
  core::steady_clock clock;
  auto device = make_pattern_device({clock, small_shape(), 8});
  auto memory = device->allocate(10000);
  REQUIRE(memory);
  auto bytes = (*memory)->bytes();
  CHECK(bytes.size() == 10000);
  CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096 == 0);
  CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  std::vector<std::byte> host(100, std::byte{9});
  std::promise<bool> copied;
  device->copy({{bytes.data() + 50, host.data(), 100}, {bytes.data() + 5000, host.data(), 1}},
               [&](auto outcome) { copied.set_value(outcome.has_value()); });
  CHECK(copied.get_future().get());
  CHECK(std::count(bytes.begin(), bytes.end(), std::byte{9}) == 101);
  auto too_much = device->allocate(std::uint64_t{1} << 60);
  REQUIRE_FALSE(too_much);
  CHECK(too_much.error().code == core::errc::no_space);
}

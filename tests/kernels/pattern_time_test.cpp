#include "pattern_fixture.hpp"

#include <atomic>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::pattern_test;
using namespace std::chrono_literals;

namespace {

/// Each of the three layers takes 1 s per token; attention costs nothing.
pattern_options slow_device(core::clock& clock) {
  auto shape = small_shape();
  shape.flops_per_token = 3e9;
  shape.attention_flops_per_pair_per_layer = 0;
  return {clock, shape, 8, 1e9, work_thread::caller};
}

} // namespace

TEST_CASE("computing takes its modelled time, one pass after another") {
  core::manual_clock clock;
  auto device = make_pattern_device(slow_device(clock));
  CHECK(device->predicted_seconds(1000, 2) == Approx(6));
  sequence tokens{std::vector<core::token_id>(20, 1)};
  full_blocks kv{device->layout(), 20}, other{device->layout(), 20};
  auto first = device->begin({batch_entry{&tokens, 0, 4, 0, true, {}}});
  auto second = device->begin({batch_entry{&tokens, 0, 2, 0, false, {}}});
  std::vector<std::pair<char, core::instant>> log;
  auto note = [&](char name) {
    return [&, name](auto outcome) {
      REQUIRE(outcome);
      log.emplace_back(name, clock.now());
    };
  };
  device->run_layers(*first, 0, 2, {kv.view()}, note('a'));
  device->run_layers(*second, 0, 3, {other.view()}, note('b'));
  device->run_layers(*first, 2, 1, {kv.view()}, note('c'));
  device->sample(*first, note('s'));
  CHECK(log.empty());
  clock.advance(100s);
  // An idle device starts at once.
  auto third = device->begin({batch_entry{&tokens, 4, 1, 0, false, {}}});
  device->run_layers(*third, 0, 1, {kv.view()}, note('d'));
  clock.advance(100s);
  using entry = std::pair<char, core::instant>;
  CHECK(log == std::vector<entry>{{'a', 8s}, {'b', 14s}, {'c', 18s}, {'s', 18s}, {'d', 101s}});
}

TEST_CASE("copies run beside a computation that is under way") {
  core::manual_clock clock;
  auto device = make_pattern_device(slow_device(clock));
  sequence tokens{std::vector<core::token_id>(20, 1)};
  full_blocks kv{device->layout(), 20};
  auto pass = device->begin({batch_entry{&tokens, 0, 4, 0, true, {}}});
  bool computed = false, copied = false;
  device->run_layers(*pass, 0, 3, {kv.view()}, [&](auto) { computed = true; });
  std::byte from{7}, to{};
  device->copy({{&to, &from, 1}}, [&](auto) { copied = true; });
  clock.advance(1s);
  CHECK(copied);
  CHECK(to == std::byte{7});
  CHECK_FALSE(computed);
  clock.advance(11s);
  CHECK(computed);
}

TEST_CASE("attention makes a long context slower, as predicted") {
  core::steady_clock clock;
  auto device = make_pattern_device({clock, *parse_pattern_shape("qwen2.5-32b"), 64, 1e15});
  auto shape = *parse_pattern_shape("qwen2.5-32b");
  CHECK(device->predicted_seconds(32768, 429) == Approx(prefill_flops(shape, 32768, 429) / 1e15));
  CHECK(device->predicted_seconds(65536, 429) > 1.3 * device->predicted_seconds(32768, 429));
  CHECK(make_pattern_device({clock, shape})->predicted_seconds(0, 1) < 0);
}

TEST_CASE("operations of a device that ends complete once, as done or as closed") {
  auto thread = GENERATE(work_thread::own, work_thread::caller);
  core::steady_clock clock;
  for (int round = 0; round < 20; ++round) {
    auto options = slow_device(clock);
    options.thread = thread;
    options.flops_per_s = round % 2 ? 1e18 : 1e9;
    auto device = make_pattern_device(options);
    sequence tokens{std::vector<core::token_id>(64, 1)};
    full_blocks kv{device->layout(), 64};
    std::array<std::atomic<int>, 30> calls{};
    std::array<std::unique_ptr<forward_pass>, 30> passes;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      passes[i] = device->begin({batch_entry{&tokens, 0, 64, 0, false, {}}});
      device->run_layers(*passes[i], 0, 3, {kv.view()}, [&, i](core::result<void> outcome) {
        if (outcome || outcome.error().code == core::errc::closed) ++calls[i];
      });
    }
    device.reset();
    for (auto& count : calls) REQUIRE(count == 1);
  }
}

TEST_CASE("a device may end inside one of its completions") {
  auto thread = GENERATE(work_thread::own, work_thread::caller);
  core::steady_clock clock;
  auto device = make_pattern_device({clock, small_shape(), 8, 0, thread});
  std::promise<void> ended;
  std::atomic<int> later = 0;
  std::byte from{1}, to{}, other{};
  // The first completion holds the device only once it has all its work.
  std::promise<void> submitted;
  device->copy({{&to, &from, 1}}, [&, ready = submitted.get_future().share()](auto) {
    ready.wait();
    device.reset();
    ended.set_value();
  });
  device->copy({{&other, &from, 1}}, [&](auto) { ++later; });
  submitted.set_value();
  ended.get_future().get();
  CHECK(later == 1);
}

// The model of the simulated store: time under a manual clock, and seeded faults.
#include "storage/sim_store.hpp"

#include "fixture.hpp"

namespace dualpath::storage::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t payload_bytes = 1'000'000;

std::unique_ptr<block_store> open(sim_store_options options) {
  if (options.payload_bytes == 0) options.payload_bytes = payload_bytes;
  auto opened = open_sim_store(std::move(options));
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  return std::move(*opened);
}

TEST_CASE("reads share the bandwidth of the store and each pays its latency") {
  core::manual_clock clock;
  auto shelf = make_sim_shelf();
  auto store = open({.clock = &clock, .shelf = shelf, .timing = {.latency = 200us, .read_bytes_per_s = 1e9}});
  auto names = chain(1, 3);
  auto written = content(1, payload_bytes);
  outcomes writes, reads;
  std::vector<core::instant> ended(3);
  for (std::size_t i = 0; i < 3; ++i) store->write(names[i], written.span(), writes.at(i));
  clock.advance(200us);
  writes.wait(3);
  buffer back{payload_bytes};
  for (std::size_t i = 0; i < 3; ++i)
    store->read(names[i].key, back.span(), [&, i, report = reads.at(i)](core::result<void> result) {
      ended[i] = clock.now();
      report(std::move(result));
    });
  clock.advance(10ms);
  reads.wait(3);
  CHECK(ended == std::vector<core::instant>{200us + 1ms + 200us, 200us + 2ms + 200us, 200us + 3ms + 200us});

  // A second store over the same shelf has a queue of its own.
  auto other = open({.clock = &clock, .shelf = shelf, .timing = {.read_bytes_per_s = 1e9}});
  outcomes both;
  store->read(names[0].key, back.span(), both.at(0));
  other->read(names[1].key, back.span(), both.at(1));
  clock.advance(1200us);
  both.wait(2);
  CHECK(both.code(0) == "ok");
  CHECK(both.code(1) == "ok");
}

struct tally {
  std::map<std::string, int> codes;
  std::vector<std::string> order;
};

tally run(sim_faults faults, bool keep_payload, int reads) {
  core::manual_clock clock;
  auto store = open({.payload_bytes = 4096, .clock = &clock, .faults = faults, .keep_payload = keep_payload});
  auto written = content(1, 4096);
  tally seen;
  buffer back{4096};
  auto note = [&](core::result<void> result) {
    seen.order.push_back(result ? "ok" : core::to_string(result.error().code));
    ++seen.codes[seen.order.back()];
    if (result && keep_payload) REQUIRE(back == written);
  };
  for (int i = 0; i < reads; ++i) {
    auto name = chain(static_cast<std::uint32_t>(i), 1).front();
    store->write(name, written.span(), [](core::result<void>) {});
    clock.advance(1ms);
    store->read(name.key, back.span(), note);
    clock.advance(1ms);
  }
  return seen;
}

TEST_CASE("faults come at their rates, never as wrong data, and the same for the same seed") {
  auto keep_payload = GENERATE(true, false);
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed << " keep_payload=" << keep_payload);
  sim_faults faults{.seed = random_seed, .missing = 0.1, .corrupt = 0.2};
  constexpr int reads = 2000;
  auto first = run(faults, keep_payload, reads), again = run(faults, keep_payload, reads);
  CHECK(first.order == again.order);
  CHECK(first.codes["not found"] == Approx(0.1 * reads).margin(0.04 * reads));
  CHECK(first.codes["corrupt"] == Approx(0.2 * 0.9 * reads).margin(0.05 * reads));
  faults.seed += 1;
  CHECK(run(faults, keep_payload, reads).order != first.order);
}

TEST_CASE("a corrupt block is removed, an i/o error leaves the block in place") {
  core::manual_clock clock;
  auto shelf = make_sim_shelf();
  auto sound = open({.clock = &clock, .shelf = shelf});
  auto broken = open({.clock = &clock, .shelf = shelf, .faults = {.io_error = 1}});
  auto flaky = open({.clock = &clock, .shelf = shelf, .faults = {.corrupt = 1}});
  auto name = chain(1, 1).front();
  auto written = content(1, payload_bytes);
  buffer back{payload_bytes};
  outcomes all;
  sound->write(name, written.span(), all.at(0));
  clock.advance(1ms);
  broken->read(name.key, back.span(), all.at(1));
  broken->remove(name.key, all.at(2));
  clock.advance(1ms);
  sound->read(name.key, back.span(), all.at(3));
  clock.advance(1ms);
  flaky->read(name.key, back.span(), all.at(4));
  clock.advance(1ms);
  sound->read(name.key, back.span(), all.at(5));
  clock.advance(1ms);
  std::vector<std::string> codes;
  for (std::size_t i = 0; i < 6; ++i) codes.push_back(all.code(i));
  CHECK(codes == std::vector<std::string>{"ok", "i/o error", "i/o error", "ok", "corrupt", "not found"});
  CHECK(flaky->counters().corrupt == 1);
  CHECK(broken->counters().io_errors == 2);
}

TEST_CASE("a full shelf refuses new blocks, keeps the old ones, and has room after a removal") {
  core::manual_clock clock;
  auto store = open({.clock = &clock, .faults = {.capacity_bytes = 2 * payload_bytes}});
  auto names = chain(1, 4);
  auto written = content(1, payload_bytes);
  outcomes all;
  for (std::size_t i = 0; i < 3; ++i) store->write(names[i], written.span(), all.at(i));
  clock.advance(1ms);
  CHECK(all.code(1) == "ok");
  CHECK(all.code(2) == "no space");
  CHECK(scan(*store).size() == 2);
  store->remove(names[0].key, all.at(3));
  store->write(names[3], written.span(), all.at(4));
  clock.advance(1ms);
  CHECK(all.code(4) == "ok");
  CHECK(store->counters().no_space == 1);
}

TEST_CASE("delayed operations complete later by the delay") {
  core::manual_clock clock;
  auto store = open({.clock = &clock, .faults = {.delayed = 1, .delay = 5ms}});
  outcomes all;
  buffer back{payload_bytes};
  store->read(chain(1, 1).front().key, back.span(), all.at(0));
  clock.advance(5ms - 1ns);
  CHECK(all.calls() == std::vector{0});
  clock.advance(1ns);
  CHECK(all.calls() == std::vector{1});
}

TEST_CASE(
    "closing completes what is in flight although the clock stands still, and the clock may go on after") {
  core::manual_clock clock;
  auto store = open({.clock = &clock, .timing = {.latency = 1s}});
  outcomes all;
  buffer back{payload_bytes};
  for (std::size_t i = 0; i < 5; ++i) store->read(chain(1, 1).front().key, back.span(), all.at(i));
  store.reset();
  CHECK(all.calls() == std::vector<int>(5, 1));
  CHECK(all.code(4) == "closed");
  clock.advance(2s);
  CHECK(all.calls() == std::vector<int>(5, 1));
}

TEST_CASE("values out of range are refused by name") {
  auto text = [](sim_store_options options) {
    auto opened = open_sim_store(std::move(options));
    REQUIRE_FALSE(opened);
    REQUIRE(opened.error().code == core::errc::invalid_argument);
    return opened.error().text;
  };
  CHECK_THAT(text({.payload_bytes = 0}), Catch::Contains("payload_bytes"));
  CHECK_THAT(text({.payload_bytes = 1, .faults = {.missing = 1.5}}), Catch::Contains("missing"));
  CHECK_THAT(text({.payload_bytes = 1, .faults = {.delayed = -1}}), Catch::Contains("delayed"));
  CHECK_THAT(text({.payload_bytes = 1, .timing = {.read_bytes_per_s = -1}}), Catch::Contains("bandwidth"));
  CHECK_THAT(text({.payload_bytes = 1, .timing = {.latency = -1s}}), Catch::Contains("latency"));
}

} // namespace
} // namespace dualpath::storage::testing

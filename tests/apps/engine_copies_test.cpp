#include "apps/engine_copies.hpp"

#include "apps/copy_bench.hpp"
#include "core/clock.hpp"
#include "kernels/pattern/pattern_device.hpp"
#include "net/verbs_devices.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <future>
#include <map>
#include <vector>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

/// What became of a NIC of the tests.
struct nic_log {
  net::verbs_copy_options asked_with;
  int opened = 0, alive = 0;
  std::size_t attached = 0, copies = 0;
  std::vector<std::function<void()>> held; ///< copies that have not ended
};

/// Copies by memcpy when the test says so. Registers regions of at most `most_bytes`.
class fake_nic final : public net::verbs_copy {
public:
  fake_nic(nic_log& log, std::size_t most_bytes) : log_{log}, most_bytes_{most_bytes} { ++log_.alive; }
  ~fake_nic() override { --log_.alive; }
  const std::string& device() const override { return name_; }
  core::result<core::region_id> attach(std::span<std::byte> bytes) override {
    if (bytes.size() > most_bytes_) return core::error{core::errc::unsupported, "no peer memory here"};
    regions_[core::region_id{++last_}] = bytes;
    ++log_.attached;
    return core::region_id{last_};
  }
  core::result<core::region_id> attach_source(std::span<const std::byte>) override { std::abort(); }
  void release(core::region_id region) override { regions_.erase(region); }
  void copy(core::region_id from, core::region_id to, std::vector<core::strided_piece> pieces,
            done on_done) override {
    ++log_.copies;
    log_.held.push_back([=, source = regions_.at(from), target = regions_.at(to)] {
      for (auto& piece : pieces)
        std::memcpy(target.data() + piece.remote_offset, source.data() + piece.local_offset, piece.bytes);
      on_done({});
    });
  }
  net::verbs_copy_counters counters() const override { return {}; }

private:
  nic_log& log_;
  std::size_t most_bytes_;
  std::string name_ = "mlx5_9";
  std::map<core::region_id, std::span<std::byte>> regions_;
  std::uint32_t last_ = 0;
};

/// An engine's device with host and device memory, and a NIC to open.
struct world {
  core::steady_clock clock;
  nic_log nic;
  std::vector<std::byte> host = std::vector<std::byte>(4096, std::byte{1});
  std::vector<std::byte> hbm = std::vector<std::byte>(8192, std::byte{2});

  verbs_opener opens(std::size_t most_bytes = 1 << 20) {
    return [this, most_bytes](const net::verbs_copy_options& how) {
      ++nic.opened;
      nic.asked_with = how;
      return core::result<std::unique_ptr<net::verbs_copy>>{std::make_unique<fake_nic>(nic, most_bytes)};
    };
  }
  static verbs_opener refuses(core::errc code) {
    return [code](const net::verbs_copy_options&) {
      return core::result<std::unique_ptr<net::verbs_copy>>{core::error{code, "no NIC in this machine"}};
    };
  }
  core::result<engine_copies> choose(const char* how, const verbs_opener& open) {
    kernels::pattern_options options{clock, *kernels::parse_pattern_shape("2x64"), 16, 0};
    std::array memory{std::span{host}, std::span{hbm}};
    return choose_copies(*parse_copies(how), {}, kernels::make_pattern_device(options), memory, open);
  }
};

/// Waits for a copy of the device's own.
core::result<void> copy_now(kernels::compute_device& device, std::vector<kernels::copy_op> ops) {
  std::promise<core::result<void>> ended;
  device.copy(std::move(ops), [&](core::result<void> outcome) { ended.set_value(std::move(outcome)); });
  return ended.get_future().get();
}

} // namespace

TEST_CASE("where the NIC reaches all memory, copies go through it, in the class of KV") {
  world w;
  auto chosen = w.choose("auto", w.opens());
  REQUIRE(chosen);
  CHECK(chosen->made_with == "verbs on mlx5_9");
  CHECK(chosen->reason.empty());
  CHECK(w.nic.attached == 2);
  CHECK(w.nic.asked_with.service_level == 2);
  CHECK(w.nic.asked_with.ip_traffic_class == 16 << 2);
  CHECK(w.nic.asked_with.device.empty());

  int ended = 0;
  chosen->device->copy({{w.hbm.data() + 100, w.host.data() + 7, 50}, {w.host.data(), w.hbm.data() + 4000, 9}},
                       [&](core::result<void> outcome) {
                         CHECK(outcome);
                         ++ended;
                       });
  REQUIRE(w.nic.held.size() == 2);
  w.nic.held[0]();
  CHECK(ended == 0); // a part is still under way, and what fences the memory waits for it
  w.nic.held[1]();
  CHECK(ended == 1);
  CHECK(std::count(w.hbm.begin(), w.hbm.end(), std::byte{1}) == 50);
  CHECK(w.hbm[100] == std::byte{1});
  CHECK(std::count(w.host.begin(), w.host.begin() + 9, std::byte{2}) == 9);
  chosen->device.reset();
  CHECK(w.nic.alive == 0);
}

TEST_CASE("without a NIC copies are the device's own, and the reason is kept") {
  world w;
  for (auto code : {core::errc::unsupported, core::errc::io}) {
    auto chosen = w.choose("auto", world::refuses(code));
    REQUIRE(chosen);
    CHECK(chosen->made_with == "the device");
    CHECK(chosen->reason == "no NIC in this machine");
    CHECK(copy_now(*chosen->device, {{w.hbm.data(), w.host.data(), 10}}));
    CHECK(w.hbm[9] == std::byte{1});
  }
}

TEST_CASE("memory that the NIC cannot register leaves copies to the device, and the NIC is closed") {
  world w;
  auto chosen = w.choose("auto", w.opens(5000));
  REQUIRE(chosen);
  CHECK(chosen->made_with == "the device");
  CHECK(chosen->reason == "no peer memory here");
  CHECK(w.nic.opened == 1);
  CHECK(w.nic.alive == 0);
  CHECK(copy_now(*chosen->device, {{w.hbm.data(), w.host.data(), 10}}));
  CHECK(w.nic.copies == 0);
}

TEST_CASE("whoever insists on verbs is told why there are none") {
  world w;
  auto without = w.choose("verbs", world::refuses(core::errc::unsupported));
  REQUIRE_FALSE(without);
  CHECK(without.error().text == "no NIC in this machine");
  auto unreached = w.choose("verbs:mlx5_9", w.opens(5000));
  REQUIRE_FALSE(unreached);
  CHECK(unreached.error().text == "no peer memory here");
  CHECK(w.nic.asked_with.device == "mlx5_9");
  CHECK(w.nic.alive == 0);
}

TEST_CASE("with the device's own copies asked for, no NIC is opened") {
  world w;
  auto chosen = w.choose("device", w.opens());
  REQUIRE(chosen);
  CHECK(chosen->made_with == "the device");
  CHECK(w.nic.opened == 0);
}

TEST_CASE("a copy of memory the NIC does not know is left to the device") {
  world w;
  auto chosen = w.choose("verbs", w.opens());
  REQUIRE(chosen);
  std::vector<std::byte> elsewhere(10);
  CHECK(copy_now(*chosen->device, {{elsewhere.data(), w.host.data(), 10}}));
  CHECK(elsewhere[9] == std::byte{1});
  CHECK(copy_now(*chosen->device, {}));
  CHECK(w.nic.copies == 0);
}

TEST_CASE("ways to copy are understood by name, and anything else is refused with the choices") {
  CHECK(*parse_copies("auto") == copy_choice{});
  CHECK(parse_copies("verbs:rxe1")->rdma_device == "rxe1");
  CHECK(parse_copies("device")->mode == copy_mode::device);
  for (auto wrong : {"", "nic", "verbs:", "device:0"}) {
    auto parsed = parse_copies(wrong);
    REQUIRE_FALSE(parsed);
    CHECK_THAT(parsed.error().text, Catch::Contains("auto, device, verbs"));
  }
}

TEST_CASE("the bench of copies chooses as a run does, and measures what it chose beside the others") {
  auto ports = net::list_verbs_ports();
  REQUIRE(ports);
  auto active = std::any_of(ports->begin(), ports->end(), [](auto& port) { return port.active; });
  auto measured = bench_copies({.piece_bytes = 1000, .pieces = 3, .rounds = 2});
  REQUIRE(measured);
  CHECK(measured->choice.starts_with(active ? "verbs on " : "the device"));
  CHECK(measured->reason.empty() == active);
  for (auto* cost : {&measured->chosen, &measured->device}) {
    CHECK(cost->submit_ns > 0);
    CHECK(cost->gb_per_s > 0);
  }
  CHECK(measured->memcpy_ns > 0);
  CHECK_FALSE(bench_copies({.pieces = 0}));
}

#include "net/verbs_copy.hpp"
#include "net/verbs_devices.hpp"
#include "tests/net/world.hpp"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

constexpr auto patience = std::chrono::seconds{60};

std::unique_ptr<verbs_copy> open(verbs_copy_options options = {}) {
  auto copies = open_verbs_copy(options);
  INFO((copies ? "" : copies.error().text));
  REQUIRE(copies);
  return std::move(*copies);
}

/// Memory that is registered with the copies, and filled at random.
struct registered {
  registered(verbs_copy& with, std::size_t size, std::mt19937_64& random)
      : bytes{random_bytes(size, random)} {
    auto attached = with.attach(bytes);
    REQUIRE(attached);
    id = *attached;
  }
  std::vector<std::byte> bytes;
  core::region_id id;
};

std::vector<ending> await(const outcome<ending>& box, std::size_t count) {
  INFO("waiting for " << count << " copies, got " << box.count());
  REQUIRE(box.wait_for(count, patience));
  return box.values();
}

/// What the target must be afterwards.
void apply(const std::vector<core::strided_piece>& pieces, const std::vector<std::byte>& from,
           std::vector<std::byte>& to) {
  for (auto& piece : pieces)
    for (std::uint64_t i = 0; i < piece.count; ++i)
      std::memcpy(to.data() + piece.remote_offset + i * piece.remote_stride,
                  from.data() + piece.local_offset + i * piece.local_stride, piece.bytes);
}

} // namespace

TEST_CASE("the pieces of a copy land where they belong, and share one doorbell") {
  std::mt19937_64 random{seed()};
  auto copies = open();
  registered from{*copies, 1 << 20, random}, to{*copies, 1 << 20, random};
  constexpr std::uint32_t count = 64, bytes = 8192;
  std::vector<core::strided_piece> pieces;
  for (std::uint32_t i = 0; i < count; ++i)
    pieces.push_back({std::uint64_t{i} * bytes, 0, std::uint64_t{count - 1 - i} * bytes + 100, 0, bytes, 1});
  auto expected = to.bytes;
  apply(pieces, from.bytes, expected);
  outcome<ending> box;
  copies->copy(from.id, to.id, pieces, into(box));
  REQUIRE_FALSE(await(box, 1)[0]);
  CHECK(to.bytes == expected);
  auto counted = copies->counters();
  CHECK(counted.doorbells == 1);
  CHECK(counted.work_requests == count);
  CHECK(counted.copies == 1);
  CHECK(counted.bytes == std::uint64_t{count} * bytes);
}

TEST_CASE("a copy with more pieces than the queue holds rings once for each half of the queue") {
  std::mt19937_64 random{seed()};
  auto copies = open({.queue_depth = 32});
  registered from{*copies, 1 << 20, random}, to{*copies, 1 << 20, random};
  constexpr std::uint32_t count = 1000;
  std::vector<core::strided_piece> rows{{0, 1000, 8, 1024, 700, count}};
  auto expected = to.bytes;
  apply(rows, from.bytes, expected);
  outcome<ending> box;
  copies->copy(from.id, to.id, rows, into(box));
  REQUIRE_FALSE(await(box, 1)[0]);
  CHECK(to.bytes == expected);
  auto counted = copies->counters();
  CHECK(counted.work_requests == count);
  CHECK(counted.doorbells == (count + 15) / 16);
  // The thread sleeps until a chain is over; once for each, and some for what is found over before it looked.
  CHECK(counted.wake_ups <= 2 * counted.doorbells + 2);
}

TEST_CASE("copies from many threads all end, each with its own bytes") {
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  auto copies = open({.queue_depth = 64});
  constexpr std::size_t threads = 4, each = 50, slot = 10'000;
  registered from{*copies, threads * each * slot, random}, to{*copies, threads * each * slot, random};
  outcome<ending> box;
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (std::size_t i = 0; i < each; ++i) {
        auto offset = (t * each + i) * slot;
        copies->copy(from.id, to.id,
                     {{offset, 0, offset, 0, 7000, 1}, {offset + 7000, 0, offset + 7000, 0, 3000, 1}},
                     into(box));
      }
    });
  for (auto& worker : workers) worker.join();
  for (auto& end : await(box, threads * each))
    if (end) FAIL(end->text);
  CHECK(to.bytes == from.bytes);
  CHECK(copies->counters().copies == threads * each);
}

TEST_CASE("a copy the device refuses fails alone and says why; its neighbours and later copies are whole") {
  std::mt19937_64 random{seed()};
  auto copies = open({.queue_depth = 64});
  constexpr std::size_t slot = 50'000, count = 20;
  registered from{*copies, slot * count, random}, to{*copies, slot * count, random};
  auto sealed_bytes = random_bytes(slot, random);
  const auto before = sealed_bytes;
  auto sealed = copies->attach_source(sealed_bytes);
  REQUIRE(sealed);
  std::vector<outcome<ending>> boxes(count);
  constexpr std::size_t bad = 7;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == bad)
      copies->copy(from.id, *sealed, {{0, 0, 0, 0, slot, 1}}, into(boxes[i]));
    else
      copies->copy(from.id, to.id, {{i * slot, 0, i * slot, 0, slot, 1}}, into(boxes[i]));
  }
  for (std::size_t i = 0; i < count; ++i) {
    INFO("copy " << i);
    auto end = await(boxes[i], 1)[0];
    INFO((end ? end->text : "done"));
    CHECK(end.has_value() == (i == bad));
    if (end) CHECK(tells(*end, core::errc::io, "refused a copy"));
  }
  CHECK(sealed_bytes == before);
  std::copy_n(to.bytes.begin() + bad * slot, slot, from.bytes.begin() + bad * slot);
  CHECK(to.bytes == from.bytes);
  outcome<ending> box;
  copies->copy(*sealed, to.id, {{0, 0, 0, 0, slot, 1}}, into(box));
  CHECK_FALSE(await(box, 1)[0]);
  CHECK(std::equal(before.begin(), before.end(), to.bytes.begin()));
  CHECK(copies->counters().failed == 1);
}

TEST_CASE("copies that name what is not there are refused, never inside the call") {
  std::mt19937_64 random{seed()};
  auto copies = open();
  registered from{*copies, 10'000, random}, to{*copies, 5'000, random};
  auto refused = [&](core::region_id a, core::region_id b, core::strided_piece piece, const char* part) {
    std::mutex held; // not recursive: a completion inside the call would never return
    outcome<ending> box;
    {
      std::lock_guard lock{held};
      copies->copy(a, b, {piece}, [&, box](core::result<void> done) mutable {
        std::lock_guard inner{held};
        box.set(done ? ending{} : ending{done.error()});
      });
    }
    auto end = await(box, 1)[0];
    REQUIRE(end);
    CHECK(tells(*end, core::errc::invalid_argument, part));
  };
  refused(from.id, core::region_id{99}, {0, 0, 0, 0, 10, 1}, "no memory region 99");
  refused(from.id, to.id, {0, 0, 0, 0, 6'000, 1}, "5000 bytes");
  refused(from.id, to.id, {0, ~0ULL, 0, 10, 10, 2}, "10000 bytes");
  copies->release(to.id);
  refused(from.id, to.id, {0, 0, 0, 0, 10, 1}, "no memory region");
  CHECK_FALSE(copies->attach({}));
  outcome<ending> box;
  copies->copy(from.id, from.id, {}, into(box));
  CHECK_FALSE(await(box, 1)[0]);
}

TEST_CASE("closing with copies under way ends each exactly once, also those asked for by completions") {
  std::mt19937_64 random{seed()};
  auto copies = open({.queue_depth = 16});
  constexpr std::size_t slot = 200'000, count = 40;
  registered from{*copies, slot * count, random}, to{*copies, slot * count, random};
  std::vector<outcome<ending>> boxes(2 * count);
  for (std::size_t i = 0; i < count; ++i)
    copies->copy(from.id, to.id, {{i * slot, 0, i * slot, 0, slot, 1}},
                 [&, i, raw = copies.get()](core::result<void> done) {
                   raw->copy(from.id, to.id, {{0, 0, 0, 0, 1, 1}}, into(boxes[count + i]));
                   into(boxes[i])(std::move(done));
                 });
  copies.reset();
  for (auto& box : boxes) {
    REQUIRE(box.count() == 1);
    auto end = box.values()[0];
    if (end) CHECK(end->code == core::errc::closed);
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!boxes[i].values()[0])
      CHECK(std::equal(from.bytes.begin() + static_cast<std::ptrdiff_t>(i * slot + 1),
                       from.bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * slot),
                       to.bytes.begin() + static_cast<std::ptrdiff_t>(i * slot + 1)));
}

TEST_CASE("copies closed inside one of their own completions have all ended when that is over") {
  std::mt19937_64 random{seed()};
  auto copies = open({.queue_depth = 16});
  constexpr std::size_t slot = 100'000, count = 20;
  registered from{*copies, slot * count, random}, to{*copies, slot * count, random};
  outcome<ending> first, rest;
  std::promise<void> asked_for;
  std::size_t ended_at_close = 0;
  auto* raw = copies.get();
  auto owner = std::make_shared<std::unique_ptr<verbs_copy>>(std::move(copies));
  raw->copy(from.id, to.id, {{0, 0, 0, 0, slot, 1}},
            [&, first, owner = std::move(owner),
             ready = asked_for.get_future().share()](core::result<void> done) mutable {
              ready.wait();
              owner->reset();
              ended_at_close = rest.count();
              into(first)(std::move(done));
            });
  for (std::size_t i = 1; i < count; ++i)
    raw->copy(from.id, to.id, {{i * slot, 0, i * slot, 0, slot, 1}}, into(rest));
  asked_for.set_value();
  CHECK_FALSE(await(first, 1)[0]);
  CHECK(ended_at_close == count - 1);
  CHECK(rest.count() == count - 1);
  CHECK(std::equal(from.bytes.begin(), from.bytes.begin() + slot, to.bytes.begin()));
}

TEST_CASE("a device is chosen by name, and one that is not there is refused by name") {
  CHECK(open({.device = "rxe1"})->device() == "rxe1");
  auto missing = open_verbs_copy({.device = "mlx5_77"});
  REQUIRE_FALSE(missing);
  CHECK(tells(missing.error(), core::errc::invalid_argument, "mlx5_77"));
}

TEST_CASE("both ports report what lanes need, and nothing of it is amiss") {
  auto ports = list_verbs_ports();
  REQUIRE(ports);
  REQUIRE(ports->size() == 2);
  for (auto& port : *ports) {
    INFO(port.device);
    CHECK(port.device.starts_with("rxe"));
    CHECK(port.link == core::link_kind::ethernet);
    CHECK(port.active);
    CHECK(port.active_mtu_bytes == 4096);
    CHECK(port.has_roce_v2);
    CHECK(port.virtual_lanes == 1);
    CHECK_FALSE(port.rate.empty());
    CHECK(core::qos_misfits(core::qos_config{}, port).empty());
  }
}

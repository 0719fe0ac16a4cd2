// The contract of storage/block_store.hpp, run against every implementation.
#include "contract_subject.hpp"

#include <thread>

namespace dualpath::storage::testing {
namespace {

TEST_CASE("a stored block reads back as it was written, padding included") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  REQUIRE(store->payload_bytes() == payload_bytes);
  REQUIRE_FALSE(store->describe().empty());
  auto name = chain(1, 1).front();
  auto written = content(7, payload_bytes);
  CHECK(write(*store, name, written) == "ok");
  buffer back{payload_bytes};
  CHECK(read(*store, name.key, back) == "ok");
  CHECK(back == written);
  auto counted = store->counters();
  CHECK(counted.reads == 1);
  CHECK(counted.read_bytes == payload_bytes);
  CHECK(counted.writes == 1);
  CHECK(counted.written_bytes == payload_bytes);
}

TEST_CASE("a block that was never stored is not found, and counted as missing") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  buffer back{payload_bytes};
  CHECK(read(*store, chain(1, 1).front().key, back) == "not found");
  CHECK(store->counters().missing == 1);
}

TEST_CASE("a removed block is missing, and removing a missing block succeeds") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  auto name = chain(1, 1).front();
  CHECK(remove(*store, name.key) == "ok");
  CHECK(write(*store, name, content(7, payload_bytes)) == "ok");
  CHECK(remove(*store, name.key) == "ok");
  buffer back{payload_bytes};
  CHECK(read(*store, name.key, back) == "not found");
  CHECK(scan(*store).empty());
}

TEST_CASE("storing a block that exists succeeds and changes nothing") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  auto name = chain(1, 1).front();
  auto first = content(1, payload_bytes);
  CHECK(write(*store, name, first) == "ok");
  CHECK(write(*store, name, content(2, payload_bytes)) == "ok");
  buffer back{payload_bytes};
  CHECK(read(*store, name.key, back) == "ok");
  CHECK(back == first);
  CHECK(scan(*store).size() == 1);
}

TEST_CASE("many operations in flight from many threads all complete, each with its own block") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  constexpr std::size_t threads = 4, each = 50, total = threads * each;
  auto names = chain(3, total);
  std::vector<buffer> written, back;
  for (std::size_t i = 0; i < total; ++i) {
    written.push_back(content(i, payload_bytes));
    back.emplace_back(payload_bytes);
  }
  outcomes writes, reads;
  for (std::size_t i = 0; i < total; ++i) writes.at(i), reads.at(i);
  auto on_all_threads = [&](auto submit) {
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < threads; ++t)
      workers.emplace_back([=] {
        for (std::size_t i = t; i < total; i += threads) submit(i);
      });
    for (auto& worker : workers) worker.join();
  };
  on_all_threads([&](std::size_t i) { store->write(names[i], written[i].span(), writes.at(i)); });
  writes.wait(total);
  on_all_threads([&](std::size_t i) { store->read(names[i].key, back[i].span(), reads.at(i)); });
  reads.wait(total);
  for (std::size_t i = 0; i < total; ++i) {
    REQUIRE(writes.code(i) == "ok");
    REQUIRE(reads.code(i) == "ok");
    REQUIRE(back[i] == written[i]);
  }
}

TEST_CASE("several stores writing the same block at once leave one whole block") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto one = under_test.open(), other = under_test.open();
  auto name = chain(1, 1).front();
  auto written = content(5, payload_bytes);
  outcomes all;
  constexpr std::size_t rounds = 20;
  for (std::size_t i = 0; i < rounds; ++i) (i % 2 ? one : other)->write(name, written.span(), all.at(i));
  all.wait(rounds);
  for (std::size_t i = 0; i < rounds; ++i) CHECK(all.code(i) == "ok");
  buffer back{payload_bytes};
  CHECK(read(*one, name.key, back) == "ok");
  CHECK(back == written);
  CHECK(scan(*other) == std::vector{name});
}

TEST_CASE("a scan after reopening visits every block with its place in the trie") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto names = chain(1, 40);
  {
    auto store = under_test.open();
    for (auto& name : names) REQUIRE(write(*store, name, content(name.depth, payload_bytes)) == "ok");
  }
  auto store = under_test.open();
  CHECK(scan(*store) == sorted(names));
  buffer back{payload_bytes};
  CHECK(read(*store, names[7].key, back) == "ok");
  CHECK(back == content(7, payload_bytes));
}

TEST_CASE("buffers that are unaligned or too short are refused by name, not used") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  auto name = chain(1, 1).front();
  buffer large{payload_bytes + 2 * buffer_alignment};
  auto whole = padded_bytes(payload_bytes);
  outcomes all;
  store->read(name.key, large.span().subspan(64, whole), all.at(0));
  store->write(name, large.span().subspan(64, whole), all.at(1));
  store->read(name.key, large.span().first(whole - 1), all.at(2));
  store->write(name, large.span().first(whole - 1), all.at(3));
  all.wait(4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(all.code(i) == "invalid argument");
  CHECK_THAT(all.text(0), Catch::Contains("aligned"));
  CHECK_THAT(all.text(3), Catch::Contains(std::to_string(whole - 1)));
  CHECK(scan(*store).empty());
}

TEST_CASE(
    "closing with operations in flight completes each exactly once, also those asked for by completions") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  constexpr std::size_t total = 200;
  auto names = chain(9, total);
  auto written = content(1, payload_bytes);
  std::vector<buffer> back;
  for (std::size_t i = 0; i < total; ++i) back.emplace_back(payload_bytes);
  outcomes all;
  for (std::size_t i = 0; i < 2 * total; ++i) all.at(i);
  for (std::size_t i = 0; i < total; ++i)
    store->write(names[i], written.span(), [&, i, raw = store.get()](core::result<void> result) {
      raw->read(names[i].key, back[i].span(), all.at(total + i));
      all.at(i)(std::move(result));
    });
  store.reset();
  CHECK(all.calls() == std::vector<int>(2 * total, 1));
  for (std::size_t i = 0; i < 2 * total; ++i) {
    INFO(i << " " << all.code(i));
    bool written_or_closed = all.code(i) == "ok" || all.code(i) == "closed";
    bool missing = i >= total && all.code(i) == "not found" && all.code(i - total) != "ok";
    REQUIRE((written_or_closed || missing));
  }
  auto again = under_test.open();
  for (auto& name : scan(*again)) {
    buffer whole{payload_bytes};
    REQUIRE(read(*again, name.key, whole) == "ok");
    REQUIRE(whole == written);
  }
}

TEST_CASE("completions never run inside the call") {
  auto under_test = any_store();
  INFO(under_test.name);
  auto store = under_test.open();
  std::mutex held; // not recursive: a completion inside the call would never return
  outcomes all;
  buffer back{payload_bytes};
  auto report = all.at(0);
  {
    std::lock_guard lock{held};
    store->read(chain(1, 1).front().key, back.span(), [&](core::result<void> result) {
      std::lock_guard inner{held};
      report(std::move(result));
    });
  }
  all.wait(1);
  CHECK(all.code(0) == "not found");
}

} // namespace
} // namespace dualpath::storage::testing

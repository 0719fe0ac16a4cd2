// What happens to a store when its cluster, or an object in it, is damaged.
#include "ceph_stores.hpp"

#include "storage/block_header.hpp"
#include "storage/block_paths.hpp"
#include "storage/store_spec.hpp"

#include <rados/librados.h>

#include <chrono>
#include <fstream>
#include <thread>

#include <signal.h>

namespace dualpath::storage::testing {
namespace {

/// The objects of a store, behind its back.
class raw_objects {
public:
  explicit raw_objects(const rados_store_options& of) {
    REQUIRE(rados_create(&cluster_, "admin") == 0);
    REQUIRE(rados_conf_read_file(cluster_, of.conf.c_str()) == 0);
    REQUIRE(rados_connect(cluster_) == 0);
    REQUIRE(rados_ioctx_create(cluster_, of.pool.c_str(), &io_) == 0);
    rados_ioctx_set_namespace(io_, ("dualpath/" + model_folder(of.model, of.layout)).c_str());
  }
  raw_objects(const raw_objects&) = delete;
  ~raw_objects() {
    rados_ioctx_destroy(io_);
    rados_shutdown(cluster_);
  }
  static std::string object(const core::block_key& key) { return core::to_hex(key) + ".kv"; }
  void flip_byte(const core::block_key& key, std::uint64_t offset) {
    char byte = 0;
    REQUIRE(rados_read(io_, object(key).c_str(), &byte, 1, offset) == 1);
    byte = static_cast<char>(byte ^ 0x40);
    REQUIRE(rados_write(io_, object(key).c_str(), &byte, 1, offset) == 0);
  }
  void cut(const core::block_key& key, std::uint64_t bytes) {
    REQUIRE(rados_trunc(io_, object(key).c_str(), bytes) == 0);
  }
  bool exists(const core::block_key& key) {
    std::uint64_t bytes = 0;
    time_t when = 0;
    return rados_stat(io_, object(key).c_str(), &bytes, &when) == 0;
  }
  void rename(const core::block_key& from, const core::block_key& to) {
    std::vector<char> bytes(1 << 20);
    int count = rados_read(io_, object(from).c_str(), bytes.data(), bytes.size(), 0);
    REQUIRE(count > 0);
    REQUIRE(rados_write_full(io_, object(to).c_str(), bytes.data(), static_cast<std::size_t>(count)) == 0);
    REQUIRE(rados_remove(io_, object(from).c_str()) == 0);
  }
  int command(const std::string& json) {
    const char* commands[] = {json.c_str()};
    return rados_mon_command(cluster_, commands, 1, nullptr, 0, nullptr, nullptr, nullptr, nullptr);
  }

private:
  rados_t cluster_ = nullptr;
  rados_ioctx_t io_ = nullptr;
};

pid_t pid_of(const std::string& daemon) {
  std::ifstream file{ceph_conf().parent_path() / "run" / (daemon + ".pid")};
  pid_t pid = 0;
  file >> pid;
  REQUIRE(pid > 1);
  return pid;
}

constexpr std::uint64_t object_bytes = header_bytes + padded_bytes(payload_bytes);

TEST_CASE("an object that was damaged anywhere is corrupt, is removed, and can be stored again") {
  auto options = fresh_model();
  auto store = take(open_rados_store(options));
  raw_objects raw{options};
  auto names = chain(1, 8);
  auto written = content(3, payload_bytes);
  std::uint64_t offsets[] = {0, 40, header_bytes - 1, header_bytes, header_bytes + 5000, object_bytes - 1};
  std::size_t damaged = 0;
  buffer back{payload_bytes};
  for (auto offset : offsets) {
    INFO("byte " << offset);
    auto& name = names[damaged++];
    REQUIRE(write(*store, name, written) == "ok");
    raw.flip_byte(name.key, offset);
    CHECK(read(*store, name.key, back) == "corrupt");
    CHECK_FALSE(raw.exists(name.key));
    CHECK(read(*store, name.key, back) == "not found");
    CHECK(write(*store, name, written) == "ok");
    CHECK(read(*store, name.key, back) == "ok");
    CHECK(back == written);
  }
  CHECK(store->counters().corrupt == damaged);
}

TEST_CASE("an object that was cut short, also to nothing, is corrupt for a read and for a scan") {
  auto options = fresh_model();
  auto store = take(open_rados_store(options));
  raw_objects raw{options};
  auto names = chain(1, 4);
  std::uint64_t sizes[] = {0, 100, header_bytes, object_bytes - 1};
  buffer back{payload_bytes};
  for (std::size_t i = 0; i < 4; ++i) {
    INFO("cut to " << sizes[i]);
    for (bool by_scan : {false, true}) {
      REQUIRE(write(*store, names[i], content(i, payload_bytes)) == "ok");
      raw.cut(names[i].key, sizes[i]);
      if (by_scan)
        CHECK(scan(*store).empty());
      else
        CHECK(read(*store, names[i].key, back) == "corrupt");
      CHECK_FALSE(raw.exists(names[i].key));
    }
  }
}

TEST_CASE("an object under another block's name is never returned as that block") {
  auto options = fresh_model();
  auto store = take(open_rados_store(options));
  auto names = chain(1, 2);
  REQUIRE(write(*store, names[0], content(1, payload_bytes)) == "ok");
  raw_objects{options}.rename(names[0].key, names[1].key);
  buffer back{payload_bytes};
  CHECK(read(*store, names[1].key, back) == "corrupt");
}

TEST_CASE("models and layouts share a pool without seeing each other") {
  auto one = fresh_model(), other = fresh_model(), wider = one;
  wider.layout.token_bytes *= 2;
  auto store = take(open_rados_store(one));
  auto name = chain(1, 1).front();
  REQUIRE(write(*store, name, content(1, payload_bytes)) == "ok");
  for (auto& options : {other, wider}) {
    auto stranger = take(open_rados_store(options));
    buffer back{stranger->payload_bytes()};
    CHECK(read(*stranger, name.key, back) == "not found");
    CHECK(scan(*stranger).empty());
    CHECK(remove(*stranger, name.key) == "ok");
  }
  CHECK(scan(*store) == std::vector{name});
}

TEST_CASE("a store with a capacity gives up the least recently used block") {
  auto options = fresh_model();
  options.capacity_bytes = 3 * object_bytes;
  auto store = take(open_rados_store(options));
  for (std::uint32_t prompt = 0; prompt < 5; ++prompt)
    REQUIRE(write(*store, chain(prompt, 1).front(), content(prompt, payload_bytes)) == "ok");
  auto left = scan(*store);
  CHECK(left.size() == 3);
  CHECK(std::find(left.begin(), left.end(), chain(4, 1).front()) != left.end());
}

TEST_CASE("a specification opens the store it names, and bad ones are refused by name") {
  auto options = fresh_model();
  auto text = "rados:" + options.conf.string() + "/kv";
  auto spec = parse_store_spec(text);
  REQUIRE(spec);
  auto store = take(open_store(*spec, {.model = options.model, .layout = layout}));
  CHECK_THAT(store->describe(), Catch::Contains("pool kv of Ceph"));
  auto refused = [&](const std::function<void(rados_store_options&)>& change, const char* part) {
    auto bad = fresh_model();
    change(bad);
    auto opened = open_rados_store(bad);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == core::errc::invalid_argument);
    CHECK_THAT(opened.error().text, Catch::Contains(part));
  };
  refused([](auto& o) { o.pool = "nosuchpool"; }, "no pool 'nosuchpool'");
  refused([](auto& o) { o.conf = "/nonexistent.conf"; }, "/nonexistent.conf");
  refused([](auto& o) { o.layout.layers = 0; }, "0 layers");
  refused([](auto& o) { o.layout.token_bytes = 1 << 25; }, "osd_max_write_size");
  refused([](auto& o) { o.queue_depth = 0; }, "queue depth is 0");
}

/// Writes the block again and again until that ends in `wanted`; false after a generous limit.
bool write_until(block_store& store, const block_name& name, const buffer& from, const std::string& wanted) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (std::chrono::steady_clock::now() < end) {
    auto outcome = write(store, name, from);
    if (outcome == wanted) return true;
    if (outcome == "ok" && remove(store, name.key) != "ok") return false;
  }
  return false;
}

TEST_CASE("a full cluster says no space at once, still reads and removes, and takes writes afterwards") {
  auto options = fresh_model();
  auto store = take(open_rados_store(options));
  raw_objects raw{options};
  auto full_from = [&](const char* nearly, const char* full) {
    auto set = [&](const char* what, const char* ratio) {
      REQUIRE(
          raw.command(R"({"prefix": "osd set-)" + std::string{what} + R"(-ratio", "ratio": )" + ratio + "}")
          == 0);
    };
    set("nearfull", nearly), set("backfillfull", nearly), set("full", full);
  };
  auto names = chain(1, 50);
  auto written = content(1, payload_bytes);
  for (auto& name : names) REQUIRE(write(*store, name, written) == "ok");
  auto more = chain(2, 1).front();
  full_from("0.00005", "0.0001");
  bool refused = write_until(*store, more, written, "no space");
  buffer back{payload_bytes};
  auto read_when_full = read(*store, names[0].key, back), removed_when_full = remove(*store, names[0].key);
  full_from("0.85", "0.95");
  CHECK(refused);
  CHECK(store->counters().no_space == 1);
  CHECK(read_when_full == "ok");
  CHECK(removed_when_full == "ok");
  CHECK(write_until(*store, more, written, "ok"));
}

TEST_CASE("an OSD killed during reads and writes loses no block, and a dead cluster ends every operation",
          "[breaks]") {
  auto options = fresh_model();
  options.deadline = std::chrono::seconds{60};
  auto store = take(open_rados_store(options));
  constexpr std::size_t total = 300;
  auto names = chain(5, total);
  std::vector<buffer> back, written;
  outcomes before, reads, writes;
  for (std::size_t i = 0; i < total; ++i) {
    written.push_back(content(i, payload_bytes));
    back.emplace_back(payload_bytes);
    before.at(i), reads.at(i), writes.at(i);
  }
  for (std::size_t i = 0; i < total / 2; ++i) store->write(names[i], written[i].span(), before.at(i));
  before.wait(total / 2);

  for (std::size_t i = 0; i < total / 2; ++i) {
    store->read(names[i].key, back[i].span(), reads.at(i));
    store->write(names[total / 2 + i], written[total / 2 + i].span(), writes.at(i));
    if (i == total / 4) {
      reads.wait(1);
      REQUIRE(kill(pid_of("osd.1"), SIGKILL) == 0);
    }
  }
  reads.wait(total / 2);
  writes.wait(total / 2);
  for (std::size_t i = 0; i < total / 2; ++i) {
    INFO("block " << i << ": " << reads.text(i) << " " << writes.text(i));
    REQUIRE(reads.code(i) == "ok");
    REQUIRE(writes.code(i) == "ok");
    REQUIRE(back[i] == written[i]);
  }
  buffer one{payload_bytes};
  for (std::size_t i = total / 2; i < total; ++i) {
    REQUIRE(read(*store, names[i].key, one) == "ok");
    REQUIRE(one == written[i]);
  }
  CHECK(scan(*store).size() == total);

  // Nobody is left to answer.
  options.deadline = std::chrono::seconds{1};
  auto hasty = take(open_rados_store(options));
  REQUIRE(kill(pid_of("osd.0"), SIGKILL) == 0);
  outcomes last;
  for (std::size_t i = 0; i < 3; ++i) last.at(i);
  hasty->read(names[0].key, one.span(), last.at(0));
  hasty->write(chain(6, 1).front(), written[0].span(), last.at(1));
  hasty->remove(names[0].key, last.at(2));
  last.wait(3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(last.code(i) == "i/o error");
  CHECK_THAT(last.text(0), Catch::Contains("no answer in time"));
}

} // namespace
} // namespace dualpath::storage::testing

// What a disk, a crash or a neighbour can do to the files of a store, and what must come of it: a miss, never
// wrong data.
#include "fixture.hpp"
#include "header_page.hpp"

#include "storage/block_header.hpp"
#include "storage/block_paths.hpp"
#include "storage/file_store.hpp"

#include <fstream>
#include <map>
#include <set>

namespace dualpath::storage::testing {
namespace {

namespace fs = std::filesystem;

constexpr core::block_layout layout{.layers = 3, .block_tokens = 4, .token_bytes = 850};
constexpr std::uint64_t payload_bytes = layout.full_block_bytes();

std::unique_ptr<block_store> open(const fs::path& folder, core::model_fingerprint of = model(1),
                                  core::block_layout with = layout, bool direct = true) {
  auto opened = open_file_store({.directory = folder, .model = of, .layout = with, .direct_io = direct});
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  return std::move(*opened);
}

void flip_bit(const fs::path& file, std::uint64_t bit) {
  std::fstream bytes{file, std::ios::in | std::ios::out | std::ios::binary};
  bytes.seekg(static_cast<std::streamoff>(bit / 8));
  auto value = static_cast<char>(bytes.get() ^ (1 << bit % 8));
  bytes.seekp(static_cast<std::streamoff>(bit / 8));
  bytes.put(value);
  REQUIRE(bytes);
}

fs::path file_of(const fs::path& folder, const core::block_key& key) {
  for (auto& file : blocks_under(folder))
    if (file.filename() == core::to_hex(key) + ".kv") return file;
  FAIL("no file for the block");
  return {};
}

bool direct_or_not() { return GENERATE(true, false); }

TEST_CASE("a flipped bit anywhere in a block makes it corrupt, and removes it") {
  auto direct = direct_or_not();
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed << " direct=" << direct);
  std::mt19937_64 random{random_seed};
  temp_folder folder;
  auto store = open(folder.path(), model(1), layout, direct);
  auto name = chain(1, 1).front();
  auto written = content(1, payload_bytes);
  buffer back{payload_bytes};
  constexpr std::uint64_t file_bits = (header_bytes + padded_bytes(payload_bytes)) * 8;
  constexpr int rounds = 150;
  for (int round = 0; round < rounds; ++round) {
    REQUIRE(write(*store, name, written) == "ok");
    auto file = file_of(folder.path(), name.key);
    REQUIRE(fs::file_size(file) * 8 == file_bits);
    // A third of the damage goes to the header page, of which a payload leaves little.
    auto bit = random() % (round % 3 == 0 ? header_bytes * 8 : file_bits);
    INFO("bit " << bit);
    flip_bit(file, bit);
    REQUIRE(read(*store, name.key, back) == "corrupt");
    REQUIRE_FALSE(fs::exists(file));
    REQUIRE(read(*store, name.key, back) == "not found");
  }
  CHECK(store->counters().corrupt == rounds);
  CHECK(store->counters().missing == rounds);
}

TEST_CASE("a block cut short at any length is corrupt and removed, by a read and by a scan") {
  auto direct = direct_or_not();
  auto by_scan = GENERATE(true, false);
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed << " direct=" << direct << " by_scan=" << by_scan);
  std::mt19937_64 random{random_seed};
  temp_folder folder;
  auto store = open(folder.path(), model(1), layout, direct);
  auto name = chain(1, 1).front();
  auto written = content(1, payload_bytes);
  buffer back{payload_bytes};
  constexpr std::uint64_t whole = header_bytes + padded_bytes(payload_bytes);
  std::vector<std::uint64_t> lengths{0,
                                     1,
                                     511,
                                     512,
                                     header_bytes - 1,
                                     header_bytes,
                                     header_bytes + 1,
                                     header_bytes + payload_bytes,
                                     whole - 4096,
                                     whole - 512,
                                     whole - 1};
  for (int i = 0; i < 30; ++i) lengths.push_back(random() % whole);
  for (auto length : lengths) {
    INFO("length " << length);
    REQUIRE(write(*store, name, written) == "ok");
    auto file = file_of(folder.path(), name.key);
    fs::resize_file(file, length);
    if (by_scan)
      REQUIRE(scan(*store).empty());
    else
      REQUIRE(read(*store, name.key, back) == "corrupt");
    REQUIRE_FALSE(fs::exists(file));
  }
  CHECK(store->counters().corrupt == lengths.size());
}

TEST_CASE("writing over a block that was cut short stores it anew") {
  temp_folder folder;
  auto store = open(folder.path());
  auto name = chain(1, 1).front();
  auto written = content(1, payload_bytes);
  REQUIRE(write(*store, name, written) == "ok");
  fs::resize_file(file_of(folder.path(), name.key), 5000);
  REQUIRE(write(*store, name, written) == "ok");
  buffer back{payload_bytes};
  CHECK(read(*store, name.key, back) == "ok");
  CHECK(back == written);
}

TEST_CASE("a scan removes damaged blocks, visits the sound ones and leaves files that are not blocks alone") {
  temp_folder folder;
  auto names = chain(1, 6);
  auto store = open(folder.path());
  for (auto& name : names) REQUIRE(write(*store, name, content(name.depth, payload_bytes)) == "ok");
  flip_bit(file_of(folder.path(), names[2].key), 100 * 8);
  auto moved = file_of(folder.path(), names[4].key);
  auto stranger = moved.parent_path() / "README";
  std::ofstream{stranger} << "hello";
  // A sound file under the name of another block.
  auto fifth = file_of(folder.path(), names[5].key);
  fs::copy_file(moved, fifth, fs::copy_options::overwrite_existing);

  auto expected = sorted({names[0], names[1], names[3], names[4]});
  CHECK(scan(*store) == expected);
  CHECK(blocks_under(folder.path()).size() == 4);
  CHECK(fs::exists(stranger));
  CHECK(store->counters().corrupt == 2);
}

TEST_CASE("a sound file under the name of another block is corrupt") {
  temp_folder folder;
  auto names = chain(1, 2);
  auto store = open(folder.path());
  for (auto& name : names) REQUIRE(write(*store, name, content(name.depth, payload_bytes)) == "ok");
  fs::copy_file(file_of(folder.path(), names[0].key), file_of(folder.path(), names[1].key),
                fs::copy_options::overwrite_existing);
  buffer back{payload_bytes};
  CHECK(read(*store, names[1].key, back) == "corrupt");
}

TEST_CASE("blocks of another model, dtype or block size in the same directory are no hits, not visited, not "
          "deleted") {
  temp_folder folder;
  auto name = chain(1, 1).front(); // the same key in every store, which keys of real prompts never are
  struct other {
    core::model_fingerprint of;
    core::block_layout with;
  };
  auto half = layout, small = layout;
  half.token_bytes /= 2;
  small.block_tokens /= 2;
  std::vector<other> others{{model(2), layout}, {model(1), half}, {model(1), small}};
  for (auto& [of, with] : others)
    REQUIRE(write(*open(folder.path(), of, with), name, content(3, with.full_block_bytes())) == "ok");
  REQUIRE(blocks_under(folder.path()).size() == others.size());

  auto store = open(folder.path());
  buffer back{payload_bytes};
  CHECK(read(*store, name.key, back) == "not found");
  CHECK(scan(*store).empty());
  CHECK(remove(*store, name.key) == "ok");
  CHECK(blocks_under(folder.path()).size() == others.size());
  for (auto& [of, with] : others) {
    buffer theirs{with.full_block_bytes()};
    CHECK(read(*open(folder.path(), of, with), name.key, theirs) == "ok");
  }
}

TEST_CASE("a block of another model copied into this model's folder is no hit, not visited, not deleted") {
  temp_folder folder;
  auto name = chain(1, 1).front();
  REQUIRE(write(*open(folder.path(), model(2)), name, content(3, payload_bytes)) == "ok");
  auto theirs = file_of(folder.path(), name.key);
  auto store = open(folder.path());
  auto ours = folder.path() / model_folder(model(1), layout)
              / fs::relative(theirs, theirs.parent_path().parent_path().parent_path());
  fs::create_directories(ours.parent_path());
  fs::copy_file(theirs, ours);
  buffer back{payload_bytes};
  CHECK(read(*store, name.key, back) == "not found");
  CHECK(scan(*store).empty());
  CHECK(fs::exists(ours));
}

TEST_CASE("a block of another version of the format is no hit, not visited, not deleted") {
  temp_folder folder;
  auto store = open(folder.path());
  auto name = chain(1, 1).front();
  REQUIRE(write(*store, name, content(3, payload_bytes)) == "ok");
  auto file = file_of(folder.path(), name.key);
  auto future = page_of_version(2);
  auto shorter = GENERATE(false, true); // a later format may well be
  std::fstream{file, std::ios::in | std::ios::out | std::ios::binary}.write(
      reinterpret_cast<const char*>(future.data()), header_bytes);
  if (shorter) fs::resize_file(file, header_bytes);
  buffer back{payload_bytes};
  CHECK(read(*store, name.key, back) == "not found");
  CHECK(scan(*store).empty());
  CHECK(fs::exists(file));
}

TEST_CASE("folders that are tidied away under an open store are made again") {
  temp_folder folder;
  auto store = open(folder.path());
  auto names = chain(1, 2);
  REQUIRE(write(*store, names[0], content(0, payload_bytes)) == "ok");
  for (auto& entry : fs::directory_iterator{folder.path() / model_folder(model(1), layout)})
    fs::remove_all(entry.path());
  buffer back{payload_bytes};
  CHECK(read(*store, names[0].key, back) == "not found");
  CHECK(write(*store, names[1], content(1, payload_bytes)) == "ok");
  CHECK(read(*store, names[1].key, back) == "ok");
  CHECK(back == content(1, payload_bytes));
}

TEST_CASE("however many blocks there are, no folder has many more than its share") {
  auto random_seed = seed();
  INFO("DUALPATH_SEED=" << random_seed);
  std::mt19937_64 random{random_seed};
  constexpr std::size_t blocks = 400'000;
  std::map<std::string, std::size_t> files;
  for (std::size_t i = 0; i < blocks; ++i) {
    core::block_key key; // keys are digests: any bytes are as likely as any others
    for (auto& byte : key.bytes) byte = static_cast<std::uint8_t>(random());
    ++files[shard_path(key, 2).data()];
  }
  CHECK(files.size() == block_folders);
  auto fullest =
      std::max_element(files.begin(), files.end(), [](auto& a, auto& b) { return a.second < b.second; });
  CHECK(fullest->second <= 2 * blocks / block_folders);
  // A share of ten million blocks is what file systems without hashed folders still handle well.
  CHECK(10'000'000 / block_folders < 2500);
}

TEST_CASE("blocks are spread over folders two levels deep") {
  temp_folder folder;
  auto store = open(folder.path());
  auto names = chain(1, 60);
  for (auto& name : names) REQUIRE(write(*store, name, content(0, payload_bytes)) == "ok");
  std::set<fs::path> folders;
  for (auto& file : blocks_under(folder.path())) {
    auto hex = file.filename().string();
    CHECK(file.parent_path().filename() == hex.substr(2, 1));
    CHECK(file.parent_path().parent_path().filename() == hex.substr(0, 2));
    folders.insert(file.parent_path());
  }
  CHECK(folders.size() > 50);
}

} // namespace
} // namespace dualpath::storage::testing

// Opening a file store where it cannot be, and running out of space: clear sentences, nothing left behind.
#include "fixture.hpp"

#include "storage/block_paths.hpp"
#include "storage/file_store.hpp"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace dualpath::storage::testing {
namespace {

namespace fs = std::filesystem;

constexpr core::block_layout layout{.layers = 8, .block_tokens = 64, .token_bytes = 656};
constexpr std::uint64_t payload_bytes = layout.full_block_bytes();

core::result<std::unique_ptr<block_store>> open(const fs::path& folder, unsigned depth = 8) {
  return open_file_store({.directory = folder, .model = model(1), .layout = layout, .queue_depth = depth});
}

/// A tmpfs of its own, where this user may mount one.
class mounted {
public:
  static std::unique_ptr<mounted> tmpfs(const char* size) {
    std::unique_ptr<mounted> self{new mounted};
    if (mount("tmpfs", self->path().c_str(), "tmpfs", 0, (std::string{"size="} + size).c_str()) != 0) {
      WARN("skipped: mounting a tmpfs needs root (" << std::strerror(errno) << ")");
      return nullptr;
    }
    self->mounted_ = true;
    return self;
  }
  ~mounted() {
    if (mounted_) umount2(path().c_str(), MNT_DETACH);
  }
  bool make_read_only() {
    return mount(nullptr, path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }
  const fs::path& path() const { return folder_.path(); }

private:
  mounted() = default;
  temp_folder folder_;
  bool mounted_ = false;
};

TEST_CASE("a full file system gives no_space, leaves nothing behind, and reads go on") {
  auto place = mounted::tmpfs("4m");
  if (!place) return;
  auto store = open(place->path());
  REQUIRE(store);
  auto names = chain(1, 40);
  auto written = content(1, payload_bytes);
  outcomes all;
  for (std::size_t i = 0; i < names.size(); ++i) (*store)->write(names[i], written.span(), all.at(i));
  all.wait(names.size());
  std::size_t stored = 0, refused = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (all.code(i) == "ok")
      ++stored;
    else if (all.code(i) == "no space")
      ++refused;
  }
  CHECK(stored + refused == names.size());
  CHECK(stored > 0);
  CHECK(refused > 0);
  CHECK((*store)->counters().no_space == refused);
  CHECK(blocks_under(place->path()).size() == stored);
  CHECK(files_under(place->path()).size() == stored + 1); // the lock

  auto kept = scan(**store);
  CHECK(kept.size() == stored);
  buffer back{payload_bytes};
  for (auto& name : kept) {
    REQUIRE(read(**store, name.key, back) == "ok");
    REQUIRE(back == written);
  }
  // Room again after removals.
  for (int i = 0; i < 2; ++i) REQUIRE(remove(**store, kept[static_cast<std::size_t>(i)].key) == "ok");
  CHECK(write(**store, chain(2, 1).front(), written) == "ok");
}

TEST_CASE("a directory on a read-only file system is refused by name") {
  auto place = mounted::tmpfs("4m");
  if (!place) return;
  if (!place->make_read_only()) {
    WARN("skipped: cannot remount read-only (" << std::strerror(errno) << ")");
    return;
  }
  auto store = open(place->path());
  REQUIRE_FALSE(store);
  CHECK(store.error().code == core::errc::io);
  CHECK_THAT(store.error().text, Catch::Contains(place->path().string()) && Catch::Contains("Read-only"));
}

TEST_CASE("a write that cannot be finished is an i/o error, leaves nothing behind, and reads go on") {
  temp_folder folder;
  auto store = open(folder.path());
  REQUIRE(store);
  auto names = chain(1, 2);
  auto written = content(1, payload_bytes);
  REQUIRE(write(**store, names[0], written) == "ok");
  auto in_the_way = folder.path() / model_folder(model(1), layout) / block_path(names[1].key).data();
  fs::create_directories(in_the_way);
  auto before = files_under(folder.path());
  CHECK(write(**store, names[1], written) == "i/o error");
  CHECK(files_under(folder.path()) == before);
  buffer back{payload_bytes};
  CHECK(read(**store, names[1].key, back) == "i/o error");
  CHECK(read(**store, names[0].key, back) == "ok");
  CHECK(back == written);
  CHECK((*store)->counters().io_errors == 2);
}

/// The kernel refuses to let this process's files grow beyond a size while one of these lives.
class file_size_limit {
public:
  explicit file_size_limit(std::uint64_t bytes) : handler_{std::signal(SIGXFSZ, SIG_IGN)} {
    getrlimit(RLIMIT_FSIZE, &before_);
    auto limited = before_;
    limited.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  file_size_limit(const file_size_limit&) = delete;
  ~file_size_limit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_CASE("writes that the kernel breaks off fail one by one, leave nothing behind, and succeed afterwards") {
  temp_folder folder;
  auto store = open(folder.path());
  REQUIRE(store);
  auto names = chain(1, 20);
  auto written = content(1, payload_bytes);
  REQUIRE(write(**store, names[0], written) == "ok");
  auto before = files_under(folder.path());
  buffer back{payload_bytes};
  {
    file_size_limit half{payload_bytes / 2};
    outcomes all;
    for (std::size_t i = 1; i < names.size(); ++i) (*store)->write(names[i], written.span(), all.at(i));
    all.wait(names.size() - 1);
    for (std::size_t i = 1; i < names.size(); ++i) CHECK(all.code(i) == "i/o error");
    CHECK(files_under(folder.path()) == before);
    CHECK(read(**store, names[0].key, back) == "ok");
  }
  CHECK((*store)->counters().io_errors == names.size() - 1);
  for (auto& name : names) REQUIRE(write(**store, name, written) == "ok");
  CHECK(scan(**store).size() == names.size());
}

TEST_CASE("a directory this user cannot write to is refused by name") {
  constexpr uid_t nobody = 65534;
  temp_folder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  bool was_root = geteuid() == 0; // root may write anywhere
  if (was_root) REQUIRE(seteuid(nobody) == 0);
  auto store = open(folder.path());
  if (was_root) REQUIRE(seteuid(0) == 0);
  fs::permissions(folder.path(), fs::perms::owner_all);
  REQUIRE_FALSE(store);
  CHECK(store.error().code == core::errc::io);
  CHECK_THAT(store.error().text, Catch::Contains(folder.path().string()) && Catch::Contains("denied"));
}

TEST_CASE("a path that is a file, or leads through one, is refused by name") {
  temp_folder folder;
  auto file = folder.path() / "file";
  std::ofstream{file} << "not a directory";
  for (auto& path : {file, file / "below"}) {
    auto store = open(path);
    REQUIRE_FALSE(store);
    CHECK(store.error().code == core::errc::invalid_argument);
    CHECK_THAT(store.error().text,
               Catch::Contains(path.string()) && Catch::Contains("give the path of a directory"));
  }
}

TEST_CASE("an empty path, a layout without bytes and a senseless queue depth are refused") {
  temp_folder folder;
  CHECK(open("").error().code == core::errc::invalid_argument);
  CHECK_THAT(open(folder.path(), 0).error().text, Catch::Contains("queue depth"));
  CHECK_THAT(open(folder.path(), 100'000).error().text, Catch::Contains("queue depth"));
  auto store = open_file_store({.directory = folder.path(), .model = model(1), .layout = {}});
  REQUIRE_FALSE(store);
  CHECK_THAT(store.error().text, Catch::Contains("layout"));
}

TEST_CASE("a missing directory is created, and the store says what it found") {
  temp_folder folder;
  auto store = open(folder.path() / "a" / "b");
  REQUIRE(store);
  CHECK_THAT((*store)->describe(), Catch::Contains((folder.path() / "a" / "b").string()));
}

} // namespace
} // namespace dualpath::storage::testing

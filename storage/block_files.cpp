#include "storage/block_files.hpp"

#include "storage/block_check.hpp"
#include "storage/block_paths.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <linux/stat.h>

namespace dualpath::storage {
namespace {

constexpr mode_t folder_mode = 0777;
constexpr mode_t file_mode = 0666;

/// What is left of page and payload from `position` on, no more than `most` bytes of the payload.
unsigned remaining(std::array<iovec, 2>& parts, std::int64_t position, header_page page,
                   std::span<std::byte> payload, std::size_t most) {
  auto at = static_cast<std::size_t>(position);
  if (at >= page.size()) {
    auto rest = payload.subspan(at - page.size());
    parts[0] = {rest.data(), std::min(rest.size(), most)};
    return 1;
  }
  parts[0] = {page.data() + at, page.size() - at};
  parts[1] = {payload.data(), std::min(payload.size(), most)};
  return payload.empty() ? 1 : 2;
}

/// The payload among the bytes from `from` to `to` of page and payload.
std::span<const std::byte> payload_between(std::int64_t from, std::int64_t to, header_page page,
                                           std::span<std::byte> payload) {
  auto page_bytes = static_cast<std::int64_t>(page.size());
  auto first = std::max(from - page_bytes, std::int64_t{0}), end = std::max(to - page_bytes, first);
  return payload.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
}

bool again(int code) { return code == -EINTR || code == -EAGAIN; }

// io_uring hands an allocation to a thread of the kernel: for a smaller file that takes longer than it saves.
constexpr std::uint64_t least_allocated_bytes = 1ULL << 20;

// What the kernel copies out of the page cache in one go where it is to be hashed: a fraction of the second
// level of any core's cache, and enough to be worth an operation.
constexpr std::size_t hot_bytes = 256 << 10;

// What takes longer to hash than to hand another operation to the kernel.
constexpr std::size_t long_work_bytes = 256 << 10;

} // namespace

core::error block_files::failure(int code, std::string_view verb, const core::block_key& key) const {
  auto what = std::string{verb} + " block " + core::to_hex(key) + " in " + folder_.path + ": ";
  switch (code) {
  case ENOENT:
  case ESTALE: // another client of a network file system removed or replaced it
    return {core::errc::not_found, what + "it is not stored"};
  case ENOSPC:
  case EDQUOT:
    return {core::errc::no_space, what + std::strerror(code) + "; remove blocks or enlarge the file system"};
  default:
    return {core::errc::io, what + std::strerror(code)};
  }
}

task<std::int64_t> block_files::transfer(direction way, int file, header_page page,
                                         std::span<std::byte> payload, running_checksum* sum) {
  auto slot = co_await disk_.enter();
  const auto most = sum ? hot_bytes : payload.size();
  const auto total = static_cast<std::int64_t>(page.size() + payload.size());
  constexpr auto alignment = static_cast<std::int64_t>(buffer_alignment);
  std::int64_t position = 0;
  while (position < total) {
    std::array<iovec, 2> parts;
    auto count = remaining(parts, position, page, payload, most);
    auto offset = static_cast<std::uint64_t>(position);
    int moved = 0;
    if (way == direction::read)
      moved = co_await ring_.readv(file, parts.data(), count, offset);
    else
      moved = co_await ring_.writev(file, parts.data(), count, offset);
    if (again(moved)) continue;
    if (moved < 0) co_return moved;
    auto reached = position + moved;
    // Direct transfers go on at whole pages only; one that does not get past a page has met the end of the
    // file.
    auto next = folder_.direct && reached < total ? reached / alignment * alignment : reached;
    if (next == position) co_return reached;
    if (sum) sum->add(payload_between(position, next, page, payload));
    position = next;
  }
  co_return position;
}

task<int> block_files::discard(const char* path) {
  int rc = co_await ring_.unlinkat(folder_.fd.get(), path);
  co_return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}

task<core::result<block_header>> block_files::load(const core::block_key& key, std::span<std::byte> payload,
                                                   header_page page) {
  auto path = block_path(key);
  int file = co_await ring_.openat(folder_.fd.get(), path.data(), O_RDONLY | (folder_.direct ? O_DIRECT : 0));
  if (file < 0) co_return failure(-file, "open", key);
  // Past the page cache bytes come into memory, not into the cache of this core: one operation is best.
  std::optional<running_checksum> sum;
  if (!folder_.direct && !payload.empty()) sum.emplace();
  auto moved = co_await transfer(direction::read, file, page, payload, sum ? &*sum : nullptr);
  co_await ring_.close(file);
  if (moved < 0) co_return failure(static_cast<int>(-moved), "read", key);
  std::optional<checksum128> known;
  if (sum) known = sum->value();
  if (!sum && payload.size() >= long_work_bytes) co_await ring_.next_turn();
  auto header = check_block({id_.model, id_.layout, folder_.path}, key, static_cast<std::uint64_t>(moved),
                            page, payload, known);
  if (!header && header.error().code == core::errc::corrupt) co_await discard(path.data());
  co_return header;
}

task<core::result<void>> block_files::read(const core::block_key& key, std::span<std::byte> payload,
                                           header_page page) {
  auto header = co_await load(key, payload, page);
  if (!header) co_return header.error();
  co_return core::result<void>{};
}

task<core::result<block_name>> block_files::read_name(const core::block_key& key, std::uint64_t size_bytes,
                                                      header_page page) {
  auto header = co_await load(key, {}, page);
  if (!header) co_return header.error();
  if (size_bytes < file_bytes()) {
    auto path = block_path(key);
    co_await discard(path.data());
    co_return bad_block(core::errc::corrupt, key, folder_.path, "is cut short");
  }
  co_return header->name;
}

task<int> block_files::create(const char* path) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | (folder_.direct ? O_DIRECT : 0);
  int file = co_await ring_.openat(folder_.fd.get(), path, flags, file_mode);
  if (file != -ENOENT) co_return file;
  // Someone tidied the folder away.
  co_await ring_.mkdirat(folder_.fd.get(), temp_files::folder_name, folder_mode);
  int second = co_await ring_.openat(folder_.fd.get(), path, flags, file_mode);
  co_return second;
}

task<int> block_files::publish(const char* temp, const core::block_key& key) {
  auto path = block_path(key);
  int rc = co_await ring_.renameat(folder_.fd.get(), temp, path.data());
  if (rc != -ENOENT) co_return rc;
  for (int level : {1, 2}) {
    auto shard = shard_path(key, level);
    int made = co_await ring_.mkdirat(folder_.fd.get(), shard.data(), folder_mode);
    if (made < 0 && made != -EEXIST) co_return made;
  }
  int second = co_await ring_.renameat(folder_.fd.get(), temp, path.data());
  co_return second;
}

task<int> block_files::preallocate(int file) {
  if (!allocates_ || file_bytes() < least_allocated_bytes) co_return 0;
  int rc = -EINTR;
  while (again(rc)) {
    int tried = co_await ring_.allocate(file, file_bytes());
    rc = tried;
  }
  if (rc != -EOPNOTSUPP && rc != -ENOSYS && rc != -EINVAL) co_return rc;
  allocates_ = false;
  co_return 0;
}

task<int> block_files::fill(int file, std::span<const std::byte> payload, header_page page) {
  // One kind of vector serves both directions; a write never changes what it points to.
  std::span<std::byte> source{const_cast<std::byte*>(payload.data()), payload.size()};
  int rc = co_await preallocate(file);
  if (rc == 0) {
    auto moved = co_await transfer(direction::write, file, page, source);
    if (moved < static_cast<std::int64_t>(file_bytes())) rc = moved < 0 ? static_cast<int>(moved) : -EIO;
  }
  if (rc == 0 && sync_) {
    int synced = co_await ring_.datasync(file);
    rc = synced;
  }
  // A network file system reports at the close that it had no room.
  int closed = co_await ring_.close(file);
  co_return rc == 0 && closed != -EINTR ? closed : rc;
}

task<core::result<void>> block_files::write(const block_name& name, std::span<const std::byte> payload,
                                            header_page page) {
  auto path = block_path(name.key);
  struct statx found {};
  int there = co_await ring_.stat_size(folder_.fd.get(), path.data(), &found);
  if (there == 0 && found.stx_size == file_bytes()) co_return core::result<void>{};

  if (payload.size() >= long_work_bytes) co_await ring_.next_turn();
  block_header header{.name = name,
                      .model = id_.model,
                      .layout = id_.layout,
                      .payload_bytes = payload_bytes(),
                      .payload_checksum = checksum(payload)};
  encode_header(header, page);
  auto temp = folder_.temps.next();
  int file = co_await create(temp.data());
  if (file < 0) co_return failure(file == -ENOENT ? EIO : -file, "create", name.key);
  int rc = co_await fill(file, payload, page);
  if (rc == 0) {
    int published = co_await publish(temp.data(), name.key);
    rc = published;
  }
  if (rc == 0) co_return core::result<void>{};
  co_await discard(temp.data());
  // A temporary file that is gone was taken by an operator or a broken mount: a failed write, not a missing
  // block.
  co_return failure(rc == -ENOENT || rc == -ESTALE ? EIO : -rc, "write", name.key);
}

task<core::result<void>> block_files::remove(const core::block_key& key) {
  auto path = block_path(key);
  int rc = co_await discard(path.data());
  if (rc < 0) co_return failure(-rc, "remove", key);
  co_return core::result<void>{};
}

} // namespace dualpath::storage

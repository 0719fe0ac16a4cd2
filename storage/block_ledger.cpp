#include "storage/block_ledger.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace dualpath::storage {
namespace {

constexpr const char* file_name = "ledger";
constexpr const char* new_name = "ledger.new";
constexpr const char* lock_name = "ledger.lock";
constexpr const char* users_name = "ledger.users";
constexpr std::string_view title = "dualpath ledger 1\n";
constexpr std::size_t key_digits = 32;
constexpr std::size_t longest_line = 2 + key_digits + 1 + key_digits + 1;

std::string line_of(const ledger_entry& entry) {
  std::string line{static_cast<char>(entry.what), ' '};
  line += core::to_hex(entry.key);
  if (entry.parent) line += ' ' + core::to_hex(*entry.parent);
  return line += '\n';
}

std::string text_of(std::span<const ledger_entry> entries) {
  std::string text;
  text.reserve(entries.size() * longest_line);
  for (auto& entry : entries) text += line_of(entry);
  return text;
}

std::optional<core::block_key> key_in(std::string_view digits) {
  auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (digits.size() != key_digits) return {};
  core::block_key key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    int high = value(digits[2 * i]), low = value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return {};
    key.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return key;
}

std::optional<ledger_entry> entry_in(std::string_view line) {
  constexpr std::string_view changes = "?+*~-";
  if (line.size() < 2 + key_digits || line[1] != ' ' || changes.find(line[0]) == std::string_view::npos)
    return {};
  auto key = key_in(line.substr(2, key_digits));
  if (!key) return {};
  ledger_entry entry{static_cast<ledger_change>(line[0]), *key, {}};
  auto rest = line.substr(2 + key_digits);
  if (rest.empty()) return entry;
  entry.parent = key_in(rest.substr(1));
  return entry.parent ? std::optional{entry} : std::nullopt;
}

/// Whole lines only: one that was cut short ends where the next append put its line end.
std::vector<ledger_entry> entries_in(std::string_view text) {
  std::vector<ledger_entry> entries;
  entries.reserve(text.size() / longest_line);
  while (!text.empty()) {
    auto end = std::min(text.find('\n'), text.size());
    if (auto entry = entry_in(text.substr(0, end))) entries.push_back(*entry);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return entries;
}

/// 0 or errno.
int lock(int file, int how) {
  int rc = 0;
  while ((rc = flock(file, how)) != 0 && errno == EINTR) {
  }
  return rc == 0 ? 0 : errno;
}

} // namespace

block_ledger::turn::~turn() {
  if (lock_ >= 0) flock(lock_, LOCK_UN);
}

core::error block_ledger::failure(const char* what, int code) const {
  auto no_room = code == ENOSPC || code == EDQUOT;
  return {no_room ? core::errc::no_space : core::errc::io, std::string{"cannot "} + what
                                                               + " the ledger of the block store in "
                                                               + folder_ + ": " + std::strerror(code)};
}

core::result<std::unique_ptr<block_ledger>> block_ledger::open(const std::string& folder) {
  std::unique_ptr<block_ledger> made{new block_ledger{folder}};
  made->directory_ = descriptor{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!made->directory_) return made->failure("open", errno);
  for (auto [name, file] : {std::pair{users_name, &made->users_}, std::pair{lock_name, &made->lock_}}) {
    *file = descriptor{openat(made->directory_.get(), name, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (!*file) return made->failure("open", errno);
  }
  auto refused = lock(made->users_.get(), LOCK_EX | LOCK_NB);
  made->alone_ = refused == 0;
  if (refused == EWOULDBLOCK) refused = lock(made->users_.get(), LOCK_SH);
  if (refused != 0)
    return core::error{core::errc::unsupported,
                       "the file system of " + folder + " has no file locks: " + std::strerror(refused)};
  return made;
}

void block_ledger::share() {
  (void)lock(users_.get(), LOCK_SH);
  alone_ = false;
}

std::optional<block_ledger::turn> block_ledger::try_turn() {
  if (lock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return turn{lock_.get()};
}

/// Opens the file that has the name now. Whether it is another one than before.
core::result<bool> block_ledger::follow() {
  struct stat named;
  if (file_ && fstatat(directory_.get(), file_name, &named, 0) == 0 && named.st_ino == inode_) return false;
  descriptor found{openat(directory_.get(), file_name, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
  if (!found || fstat(found.get(), &named) != 0) return failure("open", errno);
  file_ = std::move(found);
  inode_ = named.st_ino;
  end_ = 0;
  return true;
}

core::result<block_ledger::news> block_ledger::read() {
  auto another = follow();
  if (!another) return another.error();
  struct stat now;
  if (fstat(file_.get(), &now) != 0) return failure("read", errno);
  auto size = static_cast<std::uint64_t>(now.st_size);
  std::string text(size > end_ ? size - end_ : 0, '\0');
  std::uint64_t have = 0;
  while (have < text.size()) {
    auto got = pread(file_.get(), text.data() + have, text.size() - have, static_cast<off_t>(end_ + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failure("read", got < 0 ? errno : EIO);
    have += static_cast<std::uint64_t>(got);
  }
  end_ += have;
  // Its writer died in the middle of a line, which must not run into the next.
  if (!text.empty() && text.back() != '\n')
    if (auto ended = append(file_.get(), "\n", end_++); !ended) return ended.error();
  return news{*another, entries_in(text)};
}

core::result<void> block_ledger::append(int file, const std::string& text, std::uint64_t at) const {
  std::uint64_t done = 0;
  while (done < text.size()) {
    auto wrote = pwrite(file, text.data() + done, text.size() - done, static_cast<off_t>(at + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      auto why = failure("write", wrote < 0 ? errno : EIO);
      if (ftruncate(file, static_cast<off_t>(at)) != 0) return why; // a part that stays is skipped or true
      return why;
    }
    done += static_cast<std::uint64_t>(wrote);
  }
  return {};
}

core::result<void> block_ledger::add(std::span<const ledger_entry> entries) {
  if (entries.empty()) return {};
  auto text = text_of(entries);
  if (auto added = append(file_.get(), text, end_); !added) return added;
  end_ += text.size();
  return {};
}

core::result<void> block_ledger::replace(std::span<const ledger_entry> entries) {
  descriptor fresh{openat(directory_.get(), new_name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (!fresh) return failure("write", errno);
  auto text = std::string{title} + text_of(entries);
  if (auto written = append(fresh.get(), text, 0); !written) return written;
  struct stat made;
  if (fstat(fresh.get(), &made) != 0
      || renameat(directory_.get(), new_name, directory_.get(), file_name) != 0)
    return failure("replace", errno);
  file_ = std::move(fresh);
  inode_ = made.st_ino;
  end_ = text.size();
  return {};
}

bool block_ledger::is_long_for(std::size_t stored) const {
  constexpr std::uint64_t not_worth_it_bytes = 16 << 10;
  return end_ > not_worth_it_bytes + 4 * longest_line * stored;
}

} // namespace dualpath::storage

// What several processes agree on about the blocks of one folder, so that together they stay within a
// capacity and give up what none of them has used for long: a file of lines in the folder, one for each
// change, to which whoever has the turn appends.
//
//   ? KEY PARENT   about to be written: takes its space from now on
//   + KEY PARENT   stored
//   * KEY          used
//   ~ KEY          about to be removed: no hit any more, but still takes its space
//   - KEY          gone
//
// The first block of a prompt has no parent. A turn is a lock (flock) on another file beside it, which the
// kernel frees with the process; the lines take care of themselves: one that was cut short is skipped. A
// ledger that has grown long is replaced by one that says what is stored, in the order of use. It says
// nothing about what the blocks hold; without it, nothing is lost but the count.
//
// For one thread at a time.
#pragma once

#include "core/layout/block_key.hpp"
#include "core/result.hpp"
#include "storage/descriptor.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace dualpath::storage {

enum class ledger_change : char { reserved = '?', stored = '+', used = '*', leaving = '~', gone = '-' };

struct ledger_entry {
  ledger_change what;
  core::block_key key;
  std::optional<core::block_key> parent{}; ///< of reserved and stored
  friend bool operator==(const ledger_entry&, const ledger_entry&) = default;
};

class block_ledger {
public:
  /// Held while the ledger is read and written; nobody else does so meanwhile.
  class turn {
  public:
    explicit turn(int lock) : lock_{lock} {}
    turn(turn&& other) noexcept : lock_{std::exchange(other.lock_, -1)} {}
    turn& operator=(turn&&) = delete;
    ~turn();

  private:
    int lock_;
  };
  struct news {
    bool restarted = false; ///< these are all the entries there are; what was known before is void
    std::vector<ledger_entry> entries;
  };

  /// Opens or makes the ledger of a folder; waits while somebody else who is alone sets it up. Errors:
  /// unsupported (a file system without locks), io.
  static core::result<std::unique_ptr<block_ledger>> open(const std::string& folder);

  /// Nobody else has the ledger open, so that what it says can be replaced by what there is.
  bool alone() const { return alone_; }
  /// Lets others in.
  void share();

  /// Nothing while somebody else has the turn.
  std::optional<turn> try_turn();

  // Within a turn.
  /// What others have added since the last call.
  core::result<news> read();
  /// After read(). Errors: no_space, io; then nothing was added.
  core::result<void> add(std::span<const ledger_entry> entries);
  /// Starts over with these entries.
  core::result<void> replace(std::span<const ledger_entry> entries);
  /// Whether it is several times as long as a ledger of `stored` entries would be.
  bool is_long_for(std::size_t stored) const;

private:
  explicit block_ledger(std::string folder) : folder_{std::move(folder)} {}
  core::error failure(const char* what, int code) const;
  core::result<bool> follow();
  core::result<void> append(int file, const std::string& text, std::uint64_t at) const;

  std::string folder_;
  descriptor directory_, users_, lock_, file_;
  bool alone_ = false;
  ino_t inode_ = 0;
  std::uint64_t end_ = 0; ///< of what was read or added
};

} // namespace dualpath::storage

// What other processes do to the blocks of a folder, merged into this process's directory of them: their
// blocks are given up in turn like its own, but not while they write them, and a block they are about to
// remove takes its space until it is gone. Plain data; for one thread at a time.
#pragma once

#include "storage/block_directory.hpp"
#include "storage/block_ledger.hpp"

#include <functional>
#include <map>
#include <set>
#include <vector>

namespace dualpath::storage {

class ledger_view {
public:
  /// What this process itself has under way, which others may tell of when they start a ledger over.
  struct own_work {
    const std::multimap<core::block_key, block_name>& writing;
    const std::multiset<core::block_key>& removing;
    bool contains(const core::block_key& key) const {
      return writing.contains(key) || removing.contains(key);
    }
  };

  explicit ledger_view(block_directory& directory) : directory_{directory} {}

  /// Calls `lost` with every block that others took away.
  void apply(const block_ledger::news& news, const own_work& own,
             const std::function<void(const core::block_key&)>& lost);
  /// Blocks that others are about to remove.
  std::size_t leaving() const { return leaving_.size(); }
  bool is_leaving(const core::block_key& key) const { return leaving_.contains(key); }
  /// Others are writing or removing blocks.
  bool has_unfinished() const { return !reserved_.empty() || !leaving_.empty(); }
  /// Whoever reserved or wanted to remove blocks seems to have died over it. What was reserved may be given
  /// up like any other block; the blocks that were to be removed, which may still be there, are returned.
  std::set<core::block_key> take_over_unfinished();
  /// All there is to say, the least recently used first.
  std::vector<ledger_entry> everything(const own_work& own) const;

private:
  void restart(const block_ledger::news& news, const own_work& own,
               const std::function<void(const core::block_key&)>& lost);
  void apply(const ledger_entry& entry);
  void take_away(const core::block_key& key, const std::function<void(const core::block_key&)>& lost);
  void unreserve(const core::block_key& key);

  block_directory& directory_;
  std::set<core::block_key> reserved_, leaving_; ///< by others
};

/// What a block's name says to others.
inline ledger_entry entry_of(ledger_change what, const block_name& name) {
  return {what, name.key, name.depth > 0 ? std::optional{name.parent} : std::nullopt};
}

} // namespace dualpath::storage

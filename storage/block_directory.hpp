// Which blocks a store holds, as the trie of their prefixes: answers how much of a prompt is stored without
// asking the store, and which block to give up first. Plain data without time or I/O; single-threaded. About
// 70 bytes a block.
//
// Blocks may be inserted in any order; a block whose parent is not stored is kept but cannot be reached.
// Erasing a block that has children does the same to them: a prefix ends at the gap, the children stay
// stored, can be evicted like any other block, and can be reached again when the gap is filled.
#pragma once

#include "core/layout/block_key.hpp"
#include "storage/block_store.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace dualpath::storage {

class block_directory {
public:
  block_directory();

  /// A block that is known already is only touched. Returns whether it is new.
  bool insert(const block_name& name);
  /// Returns whether it was known. Pins on the key stay until they are undone.
  bool erase(const core::block_key& key);

  bool contains(const core::block_key& key) const;
  std::size_t size() const { return size_; }
  /// How many of `keys`, a prompt's chain from its first block on, are stored without a gap.
  std::size_t longest_prefix(std::span<const core::block_key> keys) const;

  /// Makes the blocks the most recently used ones.
  void touch(std::span<const core::block_key> keys);
  /// A pinned block is no candidate for eviction. Pins count; unpin exactly what was pinned. A key that is
  /// not stored is pinned as well, in case it comes.
  void pin(std::span<const core::block_key> keys);
  void unpin(std::span<const core::block_key> keys);
  /// The least recently used block that is not pinned and has no stored children.
  std::optional<core::block_key> eviction_candidate() const;

  /// Every stored block, the least recently used first. Of the depth it tells only whether it is 0.
  std::vector<block_name> by_age() const;

  std::size_t memory_bytes() const;

private:
  using slot = std::uint32_t;
  static constexpr slot none = ~slot{0};

  struct node {
    core::block_key key;
    std::uint64_t last_use = 0;
    slot parent = none;
    std::uint32_t children = 0; ///< stored ones
    std::uint32_t pins = 0;
    std::uint32_t heap_place = none; ///< none: no candidate
    bool stored = false;             ///< false: known only as a parent or by its pins
  };

  slot find(const core::block_key& key) const;
  slot find_or_add(const core::block_key& key);
  void drop_if_unused(slot which);
  std::size_t home(slot which) const;
  void index_insert(slot which);
  void index_erase(slot which);
  void grow_index();

  void update_candidate(slot which);
  void place(slot which, std::size_t at);
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);
  bool older(slot a, slot b) const { return nodes_[a].last_use < nodes_[b].last_use; }

  std::deque<node> nodes_; ///< a deque grows without a second copy of everything
  std::vector<slot> free_;
  std::vector<slot> index_; ///< open addressing with linear probing; a power of two
  std::vector<slot> heap_;  ///< candidates, the least recently used at the top
  std::size_t used_ = 0;    ///< nodes in the index
  std::size_t size_ = 0;
  std::uint64_t uses_ = 0;
};

} // namespace dualpath::storage

#include "storage/block_directory.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace dualpath::storage {

block_directory::block_directory() : index_(64, none) {}

bool block_directory::insert(const block_name& name) {
  auto which = find_or_add(name.key);
  nodes_[which].last_use = ++uses_;
  bool is_new = !nodes_[which].stored;
  if (is_new) {
    auto parent = name.depth == 0 ? none : find_or_add(name.parent);
    auto& block = nodes_[which];
    block.stored = true;
    block.parent = parent;
    ++size_;
    if (parent != none) {
      ++nodes_[parent].children;
      update_candidate(parent);
    }
  }
  update_candidate(which);
  return is_new;
}

bool block_directory::erase(const core::block_key& key) {
  auto which = find(key);
  if (which == none || !nodes_[which].stored) return false;
  auto parent = std::exchange(nodes_[which].parent, none);
  nodes_[which].stored = false;
  --size_;
  update_candidate(which);
  drop_if_unused(which);
  if (parent != none) {
    --nodes_[parent].children;
    update_candidate(parent);
    drop_if_unused(parent);
  }
  return true;
}

bool block_directory::contains(const core::block_key& key) const {
  auto which = find(key);
  return which != none && nodes_[which].stored;
}

std::size_t block_directory::longest_prefix(std::span<const core::block_key> keys) const {
  std::size_t length = 0;
  while (length < keys.size() && contains(keys[length])) ++length;
  return length;
}

void block_directory::touch(std::span<const core::block_key> keys) {
  ++uses_;
  for (auto& key : keys)
    if (auto which = find(key); which != none) {
      nodes_[which].last_use = uses_;
      update_candidate(which);
    }
}

void block_directory::pin(std::span<const core::block_key> keys) {
  for (auto& key : keys) {
    auto which = find_or_add(key);
    ++nodes_[which].pins;
    update_candidate(which);
  }
}

void block_directory::unpin(std::span<const core::block_key> keys) {
  for (auto& key : keys) {
    auto which = find(key);
    if (which == none || nodes_[which].pins == 0) continue;
    --nodes_[which].pins;
    update_candidate(which);
    drop_if_unused(which);
  }
}

std::optional<core::block_key> block_directory::eviction_candidate() const {
  if (heap_.empty()) return {};
  return nodes_[heap_.front()].key;
}

std::vector<block_name> block_directory::by_age() const {
  std::vector<const node*> stored;
  stored.reserve(size_);
  for (auto& each : nodes_)
    if (each.stored) stored.push_back(&each);
  std::sort(stored.begin(), stored.end(), [](auto* a, auto* b) { return a->last_use < b->last_use; });
  std::vector<block_name> names;
  names.reserve(stored.size());
  for (auto* each : stored) {
    auto is_first = each->parent == none;
    names.push_back({.key = each->key,
                     .parent = is_first ? core::block_key{} : nodes_[each->parent].key,
                     .depth = is_first ? 0U : 1U});
  }
  return names;
}

std::size_t block_directory::memory_bytes() const {
  return nodes_.size() * sizeof(node)
         + (free_.capacity() + index_.capacity() + heap_.capacity()) * sizeof(slot);
}

// ---- nodes and their index ----

std::size_t block_directory::home(slot which) const {
  return std::hash<core::block_key>{}(nodes_[which].key) & (index_.size() - 1);
}

block_directory::slot block_directory::find(const core::block_key& key) const {
  auto mask = index_.size() - 1;
  for (auto at = std::hash<core::block_key>{}(key)&mask; index_[at] != none; at = (at + 1) & mask)
    if (nodes_[index_[at]].key == key) return index_[at];
  return none;
}

block_directory::slot block_directory::find_or_add(const core::block_key& key) {
  if (auto known = find(key); known != none) return known;
  slot which;
  if (free_.empty()) {
    which = static_cast<slot>(nodes_.size());
    nodes_.emplace_back();
  } else {
    which = free_.back();
    free_.pop_back();
    nodes_[which] = {};
  }
  nodes_[which].key = key;
  ++used_;
  if (used_ * 4 > index_.size() * 3) grow_index();
  index_insert(which);
  return which;
}

void block_directory::drop_if_unused(slot which) {
  auto& block = nodes_[which];
  if (block.stored || block.children != 0 || block.pins != 0) return;
  index_erase(which);
  --used_;
  free_.push_back(which);
}

void block_directory::index_insert(slot which) {
  auto mask = index_.size() - 1;
  auto at = home(which);
  while (index_[at] != none) at = (at + 1) & mask;
  index_[at] = which;
}

void block_directory::index_erase(slot which) {
  auto mask = index_.size() - 1;
  auto hole = home(which);
  while (index_[hole] != which) hole = (hole + 1) & mask;
  index_[hole] = none;
  // Whatever probed past the hole moves into it, so that a search may stop at the first empty place.
  for (auto at = (hole + 1) & mask; index_[at] != none; at = (at + 1) & mask) {
    auto distance_home = (at - home(index_[at])) & mask;
    auto distance_hole = (at - hole) & mask;
    if (distance_home < distance_hole) continue;
    index_[hole] = std::exchange(index_[at], none);
    hole = at;
  }
}

void block_directory::grow_index() {
  auto old = std::exchange(index_, std::vector<slot>(index_.size() * 2, none));
  for (auto which : old)
    if (which != none) index_insert(which);
}

// ---- candidates for eviction: a heap whose members know their place ----

void block_directory::update_candidate(slot which) {
  auto& block = nodes_[which];
  bool candidate = block.stored && block.children == 0 && block.pins == 0;
  if (candidate && block.heap_place == none) {
    heap_.push_back(which);
    block.heap_place = static_cast<slot>(heap_.size() - 1);
    sift_up(block.heap_place);
  } else if (candidate) {
    sift_down(block.heap_place); // its last use only ever rises
  } else if (block.heap_place != none) {
    std::size_t at = std::exchange(block.heap_place, none);
    auto last = heap_.back();
    heap_.pop_back();
    if (last == which) return;
    place(last, at);
    sift_up(at);
    sift_down(nodes_[last].heap_place);
  }
}

void block_directory::place(slot which, std::size_t at) {
  heap_[at] = which;
  nodes_[which].heap_place = static_cast<slot>(at);
}

void block_directory::sift_up(std::size_t at) {
  auto which = heap_[at];
  while (at > 0 && older(which, heap_[(at - 1) / 2])) {
    place(heap_[(at - 1) / 2], at);
    at = (at - 1) / 2;
  }
  place(which, at);
}

void block_directory::sift_down(std::size_t at) {
  auto which = heap_[at];
  for (;;) {
    auto child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && older(heap_[child + 1], heap_[child])) ++child;
    if (!older(heap_[child], which)) break;
    place(heap_[child], at);
    at = child;
  }
  place(which, at);
}

} // namespace dualpath::storage

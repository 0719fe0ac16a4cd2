// The tokens of a context and the keys of its blocks pass many hands: client, scheduler, directory, engines.
// None of them changes what it was given, and copying 128 KiB at every hand would cost more than all that the
// scheduler decides. So a sequence is immutable and shared: a copy, and a part, cost the same whatever the
// length, and whoever wants more items makes a new sequence.
//
// A value like any other: equal by content, safe to copy between threads. A part keeps all of the sequence
// alive that it was taken from. Converts to a span, which lives as long as the sequence.
#pragma once

#include "core/ids.hpp"
#include "core/layout/block_key.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dualpath::core {

template <class T>
class shared_sequence {
public:
  using value_type = T;

  shared_sequence() = default;
  shared_sequence(std::vector<T> items) : size_{items.size()} {
    auto owner = std::make_shared<const std::vector<T>>(std::move(items));
    items_ = std::shared_ptr<const T>{owner, owner->data()};
  }
  shared_sequence(std::initializer_list<T> items) : shared_sequence{std::vector<T>{items}} {}

  const T* data() const { return items_.get(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  const T& operator[](std::size_t index) const { return data()[index]; }

  /// `count` items from `from` on; both within the sequence.
  shared_sequence part(std::size_t from, std::size_t count) const {
    shared_sequence taken;
    taken.items_ = std::shared_ptr<const T>{items_, data() + from};
    taken.size_ = count;
    return taken;
  }
  shared_sequence first(std::size_t count) const { return part(0, count); }
  shared_sequence from(std::size_t begin) const { return part(begin, size_ - begin); }
  /// A new sequence: this one, then `more`.
  shared_sequence appended(std::span<const T> more) const {
    std::vector<T> all;
    all.reserve(size_ + more.size());
    all.insert(all.end(), begin(), end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  friend bool operator==(const shared_sequence& a, const shared_sequence& b) {
    return a.size_ == b.size_ && (a.data() == b.data() || std::equal(a.begin(), a.end(), b.begin()));
  }

private:
  std::shared_ptr<const T> items_;
  std::size_t size_ = 0;
};

using shared_tokens = shared_sequence<token_id>;
using shared_keys = shared_sequence<block_key>;

} // namespace dualpath::core

#include "core/slot_allocator.hpp"

#include <algorithm>
#include <cassert>

namespace dualpath::core {

slot_allocator::slot_allocator(std::uint32_t slots) : free_{slots}, capacity_{slots} {
  if (slots > 0) runs_.emplace(0, slots);
}

std::optional<std::vector<std::uint32_t>> slot_allocator::allocate(std::uint32_t count) {
  if (count > free_) return std::nullopt;
  std::vector<std::uint32_t> out;
  out.reserve(count);
  auto fits = std::find_if(runs_.begin(), runs_.end(), [&](auto& run) { return run.second >= count; });
  if (fits != runs_.end()) {
    take(fits->first, count, out);
    return out;
  }
  while (out.size() < count) {
    auto longest =
        std::max_element(runs_.begin(), runs_.end(), [](auto& a, auto& b) { return a.second < b.second; });
    take(longest->first,
         std::min<std::uint32_t>(longest->second, count - static_cast<std::uint32_t>(out.size())), out);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void slot_allocator::take(std::uint32_t start, std::uint32_t count, std::vector<std::uint32_t>& out) {
  if (count == 0) return;
  auto run = runs_.extract(start);
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(start + i);
  free_ -= count;
  if (run.mapped() > count) runs_.emplace(start + count, run.mapped() - count);
}

void slot_allocator::release(std::span<const std::uint32_t> slots) {
  for (auto slot : slots) give(slot);
}

void slot_allocator::give(std::uint32_t slot) {
  auto next = runs_.upper_bound(slot);
  assert(slot < capacity_
         && (next == runs_.begin() || std::prev(next)->first + std::prev(next)->second <= slot));
  std::uint32_t start = slot, length = 1;
  if (next != runs_.end() && next->first == slot + 1) {
    length += next->second;
    next = runs_.erase(next);
  }
  if (next != runs_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == slot) {
      start = previous->first;
      length += previous->second;
    }
  }
  runs_.insert_or_assign(start, length);
  ++free_;
}

} // namespace dualpath::core

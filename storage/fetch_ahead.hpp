// Working through bytes that come from memory. A core's own prefetcher stops at the end of a page and does
// not hide all of the way to memory: each page is fetched two pages ahead of its turn, into the second level
// of the cache, which that does not crowd.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace dualpath::storage {

/// Calls `work` with one page after another, the last one perhaps shorter.
template <class Work>
void for_each_page(std::span<const std::byte> data, Work work) {
  constexpr std::size_t page_bytes = 4096, ahead_bytes = 2 * page_bytes, line_bytes = 64;
  auto fetch = [&](std::size_t from, std::size_t to) {
    for (auto at = from; at < std::min(to, data.size()); at += line_bytes)
      __builtin_prefetch(data.data() + at, 0, 2);
  };
  fetch(0, ahead_bytes);
  for (std::size_t at = 0; at < data.size(); at += page_bytes) {
    fetch(at + ahead_bytes, at + ahead_bytes + page_bytes);
    work(data.subspan(at, std::min(page_bytes, data.size() - at)));
  }
}

} // namespace dualpath::storage

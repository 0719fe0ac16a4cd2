// Working through bytes that come from memory. A core's own prefetcher stops at the end of a page, and one
// page at a time does not fill the way to memory: lines of four pages are fetched in turn, as many pages
// ahead, into the second level of the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace dualpath::storage {

/// Calls `work` with one part after another; all but the last have the same size.
template <class Work>
void for_each_part(std::span<const std::byte> data, Work work) {
  constexpr std::size_t line_bytes = 64, page_bytes = 4096, pages = 4, group_bytes = pages * page_bytes;
  constexpr std::size_t part_bytes = 1024, lines_of_a_page = part_bytes / line_bytes / pages;
  for (std::size_t at = 0; at < data.size(); at += part_bytes) {
    auto group = at / group_bytes * group_bytes + group_bytes;
    if (group + group_bytes <= data.size()) {
      auto first = data.data() + group + at % group_bytes / part_bytes * lines_of_a_page * line_bytes;
      for (std::size_t line = 0; line < lines_of_a_page; ++line)
        for (std::size_t page = 0; page < pages; ++page)
          __builtin_prefetch(first + page * page_bytes + line * line_bytes, 0, 2);
    }
    work(data.subspan(at, std::min(part_bytes, data.size() - at)));
  }
}

} // namespace dualpath::storage

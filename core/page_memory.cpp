#include "core/page_memory.hpp"

#include <algorithm>
#include <fstream>

#include <sys/mman.h>

namespace dualpath::core {
namespace {

constexpr std::size_t page_bytes = 4096;

} // namespace

void request_huge_pages(std::span<std::byte> bytes) {
  auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  auto first = (begin + page_bytes - 1) / page_bytes * page_bytes, end = begin + bytes.size();
  if (end <= first || end - first < huge_page_bytes) return;
  (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

std::optional<std::uint64_t> free_huge_pages() {
  std::ifstream file{"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"};
  std::uint64_t count = 0;
  return file >> count ? std::optional{count} : std::nullopt;
}

page_memory page_memory::allocate(std::size_t bytes) {
  page_memory made;
  // mmap returns any page: room for the way to the boundary of a huge one, which nobody touches.
  auto slack = bytes >= huge_page_bytes ? huge_page_bytes : 0;
  auto wanted = std::max<std::size_t>(bytes, 1) + slack;
  if (wanted < bytes) return made;
  auto base = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return made;
  made.mapping_ = {static_cast<std::byte*>(base), wanted};
  auto address = reinterpret_cast<std::uintptr_t>(base);
  auto skipped = slack == 0 ? 0 : (huge_page_bytes - address % huge_page_bytes) % huge_page_bytes;
  made.bytes_ = made.mapping_.subspan(skipped, bytes);
  request_huge_pages(made.bytes_);
  return made;
}

page_memory::~page_memory() {
  if (mapping_.data() != nullptr) ::munmap(mapping_.data(), mapping_.size());
}

} // namespace dualpath::core

// Memory that devices read and write: zeroed, on whole pages, and on huge pages where the system grants them.
// A disk or a NIC is handed runs of adjacent memory, of which one operation holds a limited number: in pages
// of 4 KiB a block of 4 MiB becomes several operations, on huge pages one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace dualpath::core {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Asks for huge pages under memory that is not yet touched. A request only: without them all is correct, and
/// slower. Shared memory follows its file system's option `huge` instead of the system's setting.
void request_huge_pages(std::span<std::byte> bytes);

/// Reserved ones that nobody has (vm.nr_hugepages); nothing where the kernel knows none of this size.
std::optional<std::uint64_t> free_huge_pages();

/// Owns its bytes; move-only. Threads: those of a span. Pages are taken when first touched.
class page_memory {
public:
  page_memory() = default;
  /// Empty where the system has no such memory. Memory of a huge page or more begins at a boundary of one.
  static page_memory allocate(std::size_t bytes);

  page_memory(page_memory&& other) noexcept
      : mapping_{std::exchange(other.mapping_, {})}, bytes_{std::exchange(other.bytes_, {})} {}
  page_memory& operator=(page_memory&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~page_memory();

  std::span<std::byte> bytes() const { return bytes_; }
  explicit operator bool() const { return bytes_.data() != nullptr; }

private:
  std::span<std::byte> mapping_; ///< with what was needed to reach the boundary
  std::span<std::byte> bytes_;
};

} // namespace dualpath::core

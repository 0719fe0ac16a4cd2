#include "core/page_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

using namespace dualpath::core;

namespace {

constexpr std::size_t page_bytes = 4096;

std::uintptr_t address(const page_memory& memory) {
  return reinterpret_cast<std::uintptr_t>(memory.bytes().data());
}

/// The kernel's flags of the mapping that holds an address; `hg`: huge pages were asked for.
std::string mapping_flags(std::uintptr_t at) {
  std::ifstream maps{"/proc/self/smaps"};
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream range{line}; range >> std::hex >> begin >> dash >> end && dash == '-')
      inside = begin <= at && at < end;
    else if (inside && line.starts_with("VmFlags:"))
      return line + ' ';
  }
  return {};
}

} // namespace

TEST_CASE("page memory is zeroed, whole, and on a page boundary") {
  for (std::size_t bytes : {std::size_t{1}, page_bytes + 1, huge_page_bytes - 1, 3 * huge_page_bytes + 5}) {
    auto memory = page_memory::allocate(bytes);
    REQUIRE(memory);
    CHECK(memory.bytes().size() == bytes);
    CHECK(address(memory) % page_bytes == 0);
    CHECK(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(memory.bytes(), std::byte{1});
  }
}

TEST_CASE("page memory as large as a huge page begins at the boundary of one, and asks for them") {
  auto memory = page_memory::allocate(huge_page_bytes);
  REQUIRE(memory);
  CHECK(address(memory) % huge_page_bytes == 0);
  std::ifstream supported{"/sys/kernel/mm/transparent_hugepage/enabled"};
  if (supported) CHECK(mapping_flags(address(memory)).find(" hg ") != std::string::npos);
}

TEST_CASE("memory that the system does not have is empty page memory") {
  CHECK_FALSE(page_memory::allocate(std::numeric_limits<std::size_t>::max()));
  CHECK_FALSE(page_memory::allocate(std::size_t{1} << 60));
  CHECK_FALSE(page_memory{});
}

TEST_CASE("page memory moves with its bytes and is returned once") {
  auto first = page_memory::allocate(huge_page_bytes);
  first.bytes()[5] = std::byte{7};
  auto at = address(first);
  auto second = std::move(first);
  CHECK(address(second) == at);
  CHECK(second.bytes()[5] == std::byte{7});
  second = page_memory::allocate(1);
  CHECK(second.bytes().size() == 1);
}

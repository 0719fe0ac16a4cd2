// What this process holds, as the kernel counts it.
#pragma once

#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

namespace dualpath::net::testing {

struct holdings {
  std::uint64_t resident_bytes = 0;
  std::uint64_t heap_bytes = 0; ///< in use
  std::size_t descriptors = 0;
  std::size_t shared_mappings = 0; ///< writable
};

inline holdings count_holdings() {
  holdings out;
  std::uint64_t all = 0, resident = 0;
  std::ifstream{"/proc/self/statm"} >> all >> resident;
  out.resident_bytes = resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  auto heap = mallinfo2();
  out.heap_bytes = heap.uordblks + heap.hblkhd;
  std::unique_ptr<DIR, int (*)(DIR*)> folder{opendir("/proc/self/fd"), closedir};
  while (readdir(folder.get()) != nullptr) ++out.descriptors;
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) out.shared_mappings += line.find(" rw-s ") != line.npos;
  return out;
}

} // namespace dualpath::net::testing

#include "kernels/host_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace dualpath::kernels {

namespace {

class mapped_memory final : public device_memory {
public:
  mapped_memory(void* base, std::uint64_t bytes, std::uint64_t mapped)
      : base_{static_cast<std::byte*>(base)}, bytes_{bytes}, mapped_{mapped} {}
  ~mapped_memory() override { ::munmap(base_, mapped_); }
  mapped_memory(const mapped_memory&) = delete;
  mapped_memory& operator=(const mapped_memory&) = delete;
  std::span<std::byte> bytes() override { return {base_, bytes_}; }

private:
  std::byte* base_;
  std::uint64_t bytes_, mapped_;
};

} // namespace

core::result<std::unique_ptr<device_memory>> allocate_host_memory(std::uint64_t bytes) {
  auto mapped = std::max<std::uint64_t>(bytes, 1);
  auto base = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return core::error{core::errc::no_space, "cannot allocate " + std::to_string(bytes)
                                                 + " bytes of device memory: " + std::strerror(errno)
                                                 + "; use a smaller buffer"};
  return std::unique_ptr<device_memory>{std::make_unique<mapped_memory>(base, bytes, mapped)};
}

} // namespace dualpath::kernels

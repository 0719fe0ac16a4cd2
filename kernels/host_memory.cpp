#include "kernels/host_memory.hpp"

#include "core/page_memory.hpp"

#include <string>
#include <utility>

namespace dualpath::kernels {

namespace {

class mapped_memory final : public device_memory {
public:
  explicit mapped_memory(core::page_memory memory) : memory_{std::move(memory)} {}
  std::span<std::byte> bytes() override { return memory_.bytes(); }

private:
  core::page_memory memory_;
};

} // namespace

core::result<std::unique_ptr<device_memory>> allocate_host_memory(std::uint64_t bytes) {
  auto memory = core::page_memory::allocate(bytes);
  if (!memory)
    return core::error{core::errc::no_space, "cannot allocate " + std::to_string(bytes)
                                                 + " bytes of device memory; use a smaller buffer"};
  return std::unique_ptr<device_memory>{std::make_unique<mapped_memory>(std::move(memory))};
}

} // namespace dualpath::kernels

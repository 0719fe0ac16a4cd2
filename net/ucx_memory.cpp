#include "net/ucx_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace dualpath::net {
namespace {

constexpr auto index(lane which) { return static_cast<std::size_t>(which); }

std::string size_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

} // namespace

core::result<std::shared_ptr<ucx_region>> ucx_region::allocate(const ucx_contexts& contexts,
                                                               std::uint64_t bytes) {
  if (bytes == 0) return core::error{core::errc::invalid_argument, "a memory region cannot have 0 bytes"};
  auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  auto failed = [&](const std::string& why) {
    return core::error{core::errc::no_space,
                       "cannot allocate " + size_text(bytes) + " of registered memory: " + why};
  };
  if (bytes > std::uint64_t{1} << 62) return failed("no machine has as much");
  std::shared_ptr<ucx_region> region{new ucx_region{contexts}};
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = (bytes + page - 1) / page * page;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  ucp_mem_h handle = nullptr;
  if (auto status = ucp_mem_map(contexts[index(lane::kv)], &params, &handle); status != UCS_OK) {
    return failed(ucs_status_string(status));
  }
  region->handles_[index(lane::kv)] = handle;
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  if (auto status = ucp_mem_query(handle, &attributes); status != UCS_OK)
    return failed(ucs_status_string(status));
  if (reinterpret_cast<std::uintptr_t>(attributes.address) % page != 0)
    return failed("it is not page-aligned");
  std::memset(attributes.address, 0, bytes);
  region->bytes_ = {static_cast<std::byte*>(attributes.address), bytes};
  return region;
}

core::result<std::shared_ptr<ucx_region>> ucx_region::attach(const ucx_contexts& contexts,
                                                             std::span<std::byte> bytes) {
  if (bytes.empty() || bytes.data() == nullptr) {
    return core::error{core::errc::invalid_argument, "a memory region cannot have 0 bytes"};
  }
  std::shared_ptr<ucx_region> region{new ucx_region{contexts}};
  region->bytes_ = bytes;
  // Addresses of GPU memory are not mapped into the process.
  auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  unsigned char resident = 0;
  region->host_accessible_ = mincore(reinterpret_cast<void*>(first), page, &resident) == 0;
  if (auto handle = region->handle(lane::kv); !handle) return handle.error();
  return region;
}

core::result<ucp_mem_h> ucx_region::handle(lane which) {
  auto& slot = handles_[index(which)];
  if (auto found = slot.load(std::memory_order_acquire)) return found;
  std::lock_guard lock{mutex_};
  if (auto found = slot.load(std::memory_order_relaxed)) return found;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = bytes_.data();
  params.length = bytes_.size();
  ucp_mem_h handle = nullptr;
  if (auto status = ucp_mem_map(contexts_[index(which)], &params, &handle); status != UCS_OK) {
    return core::error{core::errc::invalid_argument, "cannot register " + size_text(bytes_.size())
                                                         + " with lane " + to_string(which) + ": "
                                                         + ucs_status_string(status)};
  }
  slot.store(handle, std::memory_order_release);
  return handle;
}

core::result<std::vector<std::byte>> ucx_region::pack_key(lane which) {
  auto registered = handle(which);
  if (!registered) return registered.error();
  void* buffer = nullptr;
  std::size_t size = 0;
  if (auto status = ucp_rkey_pack(contexts_[index(which)], *registered, &buffer, &size); status != UCS_OK) {
    return core::error{core::errc::unsupported, std::string{"cannot export memory on lane "}
                                                    + to_string(which) + ": " + ucs_status_string(status)};
  }
  auto first = static_cast<const std::byte*>(buffer);
  std::vector<std::byte> key{first, first + size};
  ucp_rkey_buffer_release(buffer);
  return key;
}

ucx_region::~ucx_region() {
  // The lane that allocated the bytes gives them back last.
  for (auto which : {lane::collective, lane::control, lane::kv}) {
    if (auto handle = handles_[index(which)].load()) ucp_mem_unmap(contexts_[index(which)], handle);
  }
}

} // namespace dualpath::net

// Registered memory. Memory allocated here comes from UCX and is shared where a transport can share it,
// because only then are transfers one-sided on one machine; the other lanes register the same bytes when
// first asked for.
#pragma once

#include "core/result.hpp"
#include "net/fabric.hpp"

#include <ucp/api/ucp.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>

namespace dualpath::net {

using ucx_contexts = std::array<ucp_context_h, lane_count>;

/// One region, registered until the last transfer that names it is gone. Thread-safe.
class ucx_region {
public:
  /// Page-aligned and zeroed. Errors: no_space.
  static core::result<std::shared_ptr<ucx_region>> allocate(const ucx_contexts& contexts,
                                                            std::uint64_t bytes);
  /// Errors: invalid_argument.
  static core::result<std::shared_ptr<ucx_region>> attach(const ucx_contexts& contexts,
                                                          std::span<std::byte> bytes);
  ~ucx_region();
  ucx_region(const ucx_region&) = delete;
  ucx_region& operator=(const ucx_region&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  /// False for the memory of a GPU, which only the network may touch.
  bool host_accessible() const { return host_accessible_; }
  /// The region's handle on a lane, registering it there if it is not yet.
  core::result<ucp_mem_h> handle(lane which);
  /// What a peer's lane needs to reach the region.
  core::result<std::vector<std::byte>> pack_key(lane which);

private:
  explicit ucx_region(const ucx_contexts& contexts) : contexts_{contexts} {}

  ucx_contexts contexts_;
  std::span<std::byte> bytes_;
  bool host_accessible_ = true;
  std::mutex mutex_;
  std::array<std::atomic<ucp_mem_h>, lane_count> handles_{};
};

} // namespace dualpath::net

// Copies inside this machine, host to host and host to device, as RDMA writes that loop back through the NIC:
// the one place where collectives and KV meet sees every byte into or out of a GPU (spec §6), and submitting
// costs less than a copy engine's launch, as all pieces of a copy share one doorbell.
//
// Threading: all calls are thread-safe and none blocks, except the destructor. A copy is posted by its caller
// as far as the queue has room, the rest as room appears. Completions run once each on the object's thread,
// which sleeps between them, never inside the call. A copy the device refuses fails alone: those behind it
// start over. Closing ends what is under way with `closed`; a copy that has ended no longer touches memory.
#pragma once

#include "core/ids.hpp"
#include "core/layout/strided_piece.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dualpath::net {

struct verbs_copy_options {
  std::string device{};            ///< e.g. mlx5_0; "": the first one with an active port
  std::uint32_t queue_depth = 512; ///< writes under way
  std::uint8_t service_level = 0, ip_traffic_class = 0; ///< see core/policy/qos.hpp
};

struct verbs_copy_counters {
  std::uint64_t copies = 0, bytes = 0, failed = 0;
  std::uint64_t work_requests = 0;
  std::uint64_t doorbells = 0;
  std::uint64_t wake_ups = 0; ///< of the thread
};

class verbs_copy {
public:
  using done = std::function<void(core::result<void>)>;

  virtual ~verbs_copy() = default;
  virtual const std::string& device() const = 0;

  /// Registers memory, of the host or, where the driver of the GPU lets the NIC reach it, of a device; it
  /// must stay until release(). Errors: invalid_argument (no bytes), unsupported (cannot be registered).
  virtual core::result<core::region_id> attach(std::span<std::byte> bytes) = 0;
  /// Memory to copy from only.
  virtual core::result<core::region_id> attach_source(std::span<const std::byte> bytes) = 0;
  virtual void release(core::region_id region) = 0;

  /// Copies the pieces from their local offsets in `from` to their remote offsets in `to`. Errors:
  /// invalid_argument (no such region, a piece outside), io (names what the device said), closed.
  virtual void copy(core::region_id from, core::region_id to, std::vector<core::strided_piece> pieces,
                    done on_done) = 0;

  virtual verbs_copy_counters counters() const = 0;
};

/// Also says whether this machine can copy so: opens the device and registers memory with it. Errors:
/// unsupported (no device, no active port, memory cannot be registered), invalid_argument (no device of that
/// name), io.
core::result<std::unique_ptr<verbs_copy>> open_verbs_copy(const verbs_copy_options& options);

} // namespace dualpath::net

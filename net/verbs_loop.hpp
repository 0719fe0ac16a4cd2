// A reliable queue pair of an RDMA device that is connected to itself: what is written through it leaves
// memory and comes back to memory through the NIC, so that the NIC's arbiter sees local copies as well (spec
// §6). Posts chains of writes with one doorbell, and sleeps until they are done. For one caller at a time.
#pragma once

#include "core/result.hpp"
#include "net/verbs_copy.hpp"

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dualpath::net {

/// One write of a chain; `number` comes back in its completion.
struct loop_write {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint32_t from_key = 0, to_key = 0;
  std::uint32_t bytes = 0;
  std::uint64_t number = 0;
};

/// Keeps memory registered. Holds on to the device.
class verbs_memory {
public:
  verbs_memory(std::shared_ptr<void> device, ibv_mr* handle, std::span<std::byte> bytes)
      : device_{std::move(device)}, handle_{handle}, bytes_{bytes} {}
  verbs_memory(const verbs_memory&) = delete;
  ~verbs_memory() { ibv_dereg_mr(handle_); }
  std::span<std::byte> bytes() const { return bytes_; }
  std::uint32_t local_key() const { return handle_->lkey; }
  std::uint32_t remote_key() const { return handle_->rkey; }

private:
  std::shared_ptr<void> device_;
  ibv_mr* handle_;
  std::span<std::byte> bytes_;
};

class verbs_loop {
public:
  /// Errors: unsupported (no device, no active port), invalid_argument (no device of that name), io (what the
  /// device refused).
  static core::result<std::unique_ptr<verbs_loop>> open(const verbs_copy_options& options);
  ~verbs_loop();
  verbs_loop(const verbs_loop&) = delete;

  /// Errors: unsupported (memory the device cannot reach).
  core::result<std::shared_ptr<verbs_memory>> attach(std::span<std::byte> bytes, bool writable);

  const std::string& device() const { return name_; }
  std::uint32_t queue_depth() const { return depth_; }
  std::uint64_t max_write_bytes() const { return max_write_bytes_; }

  /// One doorbell; only the last write tells when it is done, which says so of those before it too. Writes
  /// that fail tell so themselves. Returns how many were posted; fewer than given is a failure of the device.
  std::size_t post(std::span<const loop_write> chain);

  /// Readable when there is something to poll() since the last arm().
  int event_fd() const { return channel_->fd; }
  /// After event_fd() became readable, before poll().
  void arm();
  /// Completions, at most as many as `into` holds. Returns how many.
  std::size_t poll(std::span<ibv_wc> into);

  /// Ends what is posted as failed.
  void fail();
  /// Ready for posting again; nothing is posted any more. Errors: io.
  core::result<void> reset();

private:
  verbs_loop() = default;
  core::result<void> open_device(const std::string& wanted);
  core::result<void> create_queue(std::uint32_t wanted_depth);
  core::result<void> connect();
  core::error refused(const std::string& what, int code) const;

  std::string name_;
  std::shared_ptr<ibv_context> context_;
  std::shared_ptr<ibv_pd> domain_; ///< keeps the context
  std::unique_ptr<ibv_comp_channel, int (*)(ibv_comp_channel*)> channel_{nullptr, ibv_destroy_comp_channel};
  std::unique_ptr<ibv_cq, int (*)(ibv_cq*)> completions_{nullptr, ibv_destroy_cq};
  std::unique_ptr<ibv_qp, int (*)(ibv_qp*)> queue_{nullptr, ibv_destroy_qp};
  std::uint8_t port_ = 1;
  ibv_port_attr port_attributes_{};
  int gid_index_ = 0;
  std::uint8_t service_level_ = 0, ip_traffic_class_ = 0;
  std::uint32_t depth_ = 0;
  std::uint64_t max_write_bytes_ = 0;
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> ranges_;
};

} // namespace dualpath::net

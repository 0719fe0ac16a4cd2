// A lane's UCX context and its workers. A context of its own a lane is what lets lanes differ in service
// level or traffic class: UCX fixes both when a context is made. Settings go through ucp_config_modify, so
// that fabrics of one process do not share them through the environment.
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"
#include "net/fabric.hpp"

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dualpath::net {

/// What UCX sends at once over TCP, and receives without putting it together from parts; headers included.
inline constexpr std::uint64_t tcp_segment_bytes = 128ULL << 10;

using ucx_settings = std::vector<std::pair<std::string, std::string>>;

/// "text: what UCX says", as an error of the peer being gone unless the status says otherwise.
core::error ucx_failure(const std::string& what, ucs_status_t status);

/// A worker: what endpoints are made on and messages arrive at. Used by one thread.
class ucx_worker {
public:
  static core::result<std::unique_ptr<ucx_worker>> open(lane which, ucp_context_h context);
  ~ucx_worker();
  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  ucp_worker_h handle() const { return worker_; }
  /// Readable when the armed worker has something to do.
  int event_fd() const { return event_fd_; }
  const std::vector<std::byte>& address() const { return address_; }
  /// True once all that was to be sent when it was first called has gone, or some time after that. UCX 1.13
  /// aborts a process that destroys a worker while it answers a peer that has just connected to it, known
  /// here or not, or in the middle of its flush.
  bool flush(core::instant now, core::duration patience);

private:
  static constexpr core::instant no_flush{-1};

  ucx_worker() = default;

  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  core::instant flushing_since_ = no_flush;
  void* flush_request_ = nullptr;
  std::vector<std::byte> address_;
};

/// The context, which registered memory belongs to.
class ucx_context {
public:
  /// `transports` empty: UCX chooses. Errors: unsupported, naming the lane and the setting.
  static core::result<std::unique_ptr<ucx_context>> open(lane which, const std::string& transports,
                                                         const ucx_settings& settings);
  ~ucx_context();
  ucx_context(const ucx_context&) = delete;
  ucx_context& operator=(const ucx_context&) = delete;

  ucp_context_h handle() const { return context_; }

private:
  explicit ucx_context(ucp_context_h context) : context_{context} {}

  ucp_context_h context_;
};

} // namespace dualpath::net

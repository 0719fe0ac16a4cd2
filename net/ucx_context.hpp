// One lane's UCX context and worker. A context of its own a lane is what lets lanes differ in service level
// or traffic class: UCX fixes both when a context is made. Settings go through ucp_config_modify, so that
// fabrics of one process do not share them through the environment.
#pragma once

#include "core/result.hpp"
#include "net/fabric.hpp"

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dualpath::net {

using ucx_settings = std::vector<std::pair<std::string, std::string>>;

/// "text: what UCX says", as an error of the peer being gone unless the status says otherwise.
core::error ucx_failure(const std::string& what, ucs_status_t status);

class ucx_context {
public:
  /// `transports` empty: UCX chooses. Errors: unsupported, naming the lane and the setting.
  static core::result<std::unique_ptr<ucx_context>> open(lane which, const std::string& transports,
                                                         const ucx_settings& settings);
  ~ucx_context();
  ucx_context(const ucx_context&) = delete;
  ucx_context& operator=(const ucx_context&) = delete;

  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  /// Readable when the armed worker has something to do.
  int event_fd() const { return event_fd_; }
  const std::vector<std::byte>& address() const { return address_; }
  /// Before the memory registered with the context is released; the context itself goes last.
  void destroy_worker();

private:
  ucx_context() = default;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::vector<std::byte> address_;
};

} // namespace dualpath::net

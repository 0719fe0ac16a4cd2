#include "net/ucx_context.hpp"

#include "net/socket_errors.hpp"

#include "net/ucx_transports.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <ucs/config/global_opts.h>
#include <utility>

namespace dualpath::net {
namespace {

constexpr int flush_steps = 4096; ///< more than a worker has endpoints

/// What a program may ask for; 0: not known. Asking for more than that would end in less than what Linux
/// gives unasked.
std::uint64_t max_receive_buffer() {
  std::uint64_t bytes = 0;
  std::ifstream{"/proc/sys/net/core/rmem_max"} >> bytes;
  return bytes;
}

/// What every lane needs. Settings of a transport that is not there are ignored by UCX, with a warning only,
/// so each is set only where its transport may be used.
ucx_settings base_settings(const std::string& transports) {
  auto may_use = [&](const char* name) {
    return transports.empty() || transports == "all" || transports.find(name) != std::string::npos;
  };
  ucx_settings settings{{"KEEPALIVE_INTERVAL", "1s"}};
  // What a worker allocates for headers stays in the cache of registrations when the worker goes, 2 MiB each
  // time a lane reconnects. Our memory is registered by name and needs no cache.
  settings.emplace_back("RCACHE_ENABLE", "n");
  if (!transports.empty()) settings.emplace_back("TLS", transports);
  if (may_use("posix") || may_use("sysv") || may_use("shm") || may_use("sm")) {
    // Without it UCX refuses endpoints with error handling over shared memory.
    settings.emplace_back("MM_ERROR_HANDLING", "y");
  }
  if (may_use("ud") || may_use("rc")) {
    // A connection that UCX 1.13 gives up while it is made would take the process along.
    settings.emplace_back("UD_TIMEOUT", "86400s");
  }
  if (may_use("tcp")) {
    // Else the lane stands still, for minutes, while it connects to a host that does not answer.
    settings.emplace_back("CONN_NB", "y");
    // The 8 KiB default costs three quarters of the bandwidth.
    auto segment = std::to_string(tcp_segment_bytes);
    settings.emplace_back("TX_SEG_SIZE", segment);
    settings.emplace_back("RX_SEG_SIZE", segment);
    // Linux grows the buffer only as fast as the lane reads. What overruns it meanwhile is dropped, and comes
    // again after a timeout of up to seconds.
    if (max_receive_buffer() >= tcp_receive_buffer_bytes)
      settings.emplace_back("RCVBUF", std::to_string(tcp_receive_buffer_bytes));
  }
  return settings;
}

core::error cannot(lane which, const std::string& what, ucs_status_t status) {
  return {core::errc::unsupported,
          std::string{"lane "} + to_string(which) + ": " + what + " failed: " + ucs_status_string(status)};
}

/// Errors reach our callers as values; UCX telling them once more on the console helps nobody who has not
/// asked for it.
void silence_log() {
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts.log_component.log_level = UCS_LOG_LEVEL_FATAL;
}

core::result<ucp_context_h> open_context(lane which, const ucx_settings& settings) {
  silence_log();
  ucp_config_t* config = nullptr;
  if (auto status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return cannot(which, "reading the UCX configuration", status);
  }
  std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> owner{config, ucp_config_release};
  for (auto& [name, value] : settings) {
    if (auto status = ucp_config_modify(config, name.c_str(), value.c_str()); status != UCS_OK) {
      return cannot(which, "UCX setting " + name + "=" + value, status);
    }
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1; // memory is registered outside the lane's thread
  ucp_context_h context = nullptr;
  if (auto status = ucp_init(&params, config, &context); status != UCS_OK) {
    auto wanted = std::find_if(settings.begin(), settings.end(), [](auto& s) { return s.first == "TLS"; });
    auto failure = cannot(which, "opening a UCX context", status);
    if (wanted != settings.end())
      failure.text +=
          " with the transports '" + wanted->second + "'; ucx_info -d lists those of this machine";
    return failure;
  }
  return context;
}

} // namespace

core::error ucx_failure(const std::string& what, ucs_status_t status) {
  return {core::errc::disconnected, what + ": " + ucs_status_string(status)};
}

core::result<std::unique_ptr<ucx_context>> ucx_context::open(lane which, const std::string& transports,
                                                             const ucx_settings& settings) {
  if (!lost_peers_are_borne())
    return core::error{
        core::errc::unsupported,
        "UCX would abort this process when a peer disappears at the wrong time: link libucs dynamically, "
        "and let the executable export send"};
  auto all = base_settings(transports);
  all.insert(all.end(), settings.begin(), settings.end());
  auto context = open_context(which, all);
  if (!context) return context.error();
  return std::unique_ptr<ucx_context>{new ucx_context{*context}};
}

ucx_context::~ucx_context() { ucp_cleanup(context_); }

core::result<std::unique_ptr<ucx_worker>> ucx_worker::open(lane which, ucp_context_h context) {
  std::unique_ptr<ucx_worker> out{new ucx_worker};
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (auto status = ucp_worker_create(context, &params, &out->worker_); status != UCS_OK) {
    out->worker_ = nullptr;
    return cannot(which, "creating a UCX worker", status);
  }
  if (auto status = ucp_worker_get_efd(out->worker_, &out->event_fd_); status != UCS_OK) {
    return cannot(which, "getting the worker's event descriptor", status);
  }
  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  if (auto status = ucp_worker_get_address(out->worker_, &address, &size); status != UCS_OK) {
    return cannot(which, "getting the worker's address", status);
  }
  auto first = reinterpret_cast<const std::byte*>(address);
  out->address_.assign(first, first + size);
  ucp_worker_release_address(out->worker_, address);
  return out;
}

bool ucx_worker::flush(core::instant now, core::duration patience) {
  if (flushing_since_ == no_flush) {
    flushing_since_ = now;
    ucp_request_param_t param{};
    auto request = ucp_worker_flush_nbx(worker_, &param);
    if (UCS_PTR_IS_PTR(request)) flush_request_ = request;
  }
  if (flush_request_ == nullptr) return true;
  if (ucp_request_check_status(flush_request_) == UCS_INPROGRESS) {
    if (now < flushing_since_ + patience) return false;
    // A flush holds the endpoint that it looks at next, one a step; a worker must not go with one held.
    for (int step = 0; step < flush_steps; ++step) ucp_worker_progress(worker_);
    return true;
  }
  ucp_request_free(std::exchange(flush_request_, nullptr));
  return true;
}

ucx_worker::~ucx_worker() {
  if (flush_request_ != nullptr) ucp_request_free(flush_request_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

} // namespace dualpath::net

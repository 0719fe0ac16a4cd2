// UCX 1.13 aborts the process whose peer disappears while it connects back (net/socket_errors.cpp).
#include "peer_process.hpp"
#include "world.hpp"

#include "net/socket_errors.hpp"
#include "net/socket_guard.hpp"
#include "net/ucx_context.hpp"

#include <atomic>
#include <optional>
#include <thread>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

/// A worker, and what UCX said of its endpoint.
struct lone_worker {
  std::unique_ptr<ucx_context> context;
  std::unique_ptr<ucx_worker> worker;
  ucp_ep_h endpoint = nullptr;
  std::optional<ucs_status_t> lost;

  lone_worker() {
    auto opened = ucx_context::open(lane::control, "tcp", {{"NET_DEVICES", "lo"}});
    REQUIRE(opened);
    context = std::move(*opened);
    auto made = ucx_worker::open(lane::control, context->handle());
    REQUIRE(made);
    worker = std::move(*made);
  }

  void connect(const std::vector<std::byte>& address) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                        | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
      static_cast<lone_worker*>(self)->lost = status;
    };
    params.err_handler.arg = this;
    REQUIRE(ucp_ep_create(worker->handle(), &params, &endpoint) == UCS_OK);
  }
  void progress() { ucp_worker_progress(worker->handle()); }
  void close() {
    auto request = ucp_ep_close_nb(endpoint, UCP_EP_CLOSE_MODE_FORCE);
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) progress();
    ucp_request_free(request);
  }
};

} // namespace

TEST_CASE("a peer that disappears while both connect to each other ends the connection, not the process") {
  REQUIRE(guard_ucx_sockets(cluster_secret));
  auto borne_before = requests_to_lost_peers();
  lone_worker here;
  peer_process peer{DUALPATH_TEST_HALF_PEER, {to_hex(here.worker->address()), cluster_secret}};
  std::atomic<bool> answered{false};
  std::thread accepts{[&] {
    while (!answered) here.progress();
  }};
  CHECK(peer.ask("await") == "answered");
  answered = true;
  accepts.join();

  // What it has not read makes its system reset the connection.
  peer.kill();
  here.connect(peer.address);
  CHECK(requests_to_lost_peers() == borne_before + 1);
  auto limit = std::chrono::steady_clock::now() + 60s;
  while (!here.lost && std::chrono::steady_clock::now() < limit) here.progress();
  REQUIRE(here.lost);
  CHECK(*here.lost != UCS_OK);
  here.close();
}

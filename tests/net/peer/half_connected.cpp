// A peer that connects to a UCX worker and never looks at the answer, for tests that kill it then. Arguments:
// the worker's address in hexadecimal, the cluster's secret. Prints its own address in hexadecimal and an
// empty line; answers a line of input with "answered" once the worker's answer lies unread in its socket.
#include "net/socket_guard.hpp"
#include "net/ucx_context.hpp"

#include "hexadecimal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdio>
#include <iostream>
#include <string>

using namespace dualpath;
using namespace dualpath::net;

namespace {

constexpr int most_descriptors = 256;

/// Waits until a connection of this process has received something.
bool await_answer() {
  pollfd connections[most_descriptors];
  nfds_t count = 0;
  for (int fd = 3; fd < most_descriptors; ++fd) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 && peer.ss_family == AF_INET)
      connections[count++] = {fd, POLLIN, 0};
  }
  return ::poll(connections, count, -1) > 0;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !guard_ucx_sockets(argv[2])) return 2;
  // It connects while it makes its endpoint, since afterwards it never makes progress.
  auto context = ucx_context::open(lane::control, "tcp", {{"NET_DEVICES", "lo"}, {"CONN_NB", "n"}});
  if (!context) return 1;
  auto worker = ucx_worker::open(lane::control, (*context)->handle());
  if (!worker) return 1;
  auto to = testing::from_hex(argv[1]);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = reinterpret_cast<const ucp_address_t*>(to.data());
  ucp_ep_h endpoint = nullptr;
  if (ucp_ep_create((*worker)->handle(), &params, &endpoint) != UCS_OK) return 1;
  std::cout << testing::to_hex((*worker)->address()) << "\n\n" << std::flush;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << (await_answer() ? "answered" : "no connection") << std::endl;
}

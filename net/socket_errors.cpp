// UCX 1.13 makes one TCP connection of two: a side that has accepted one uses it for its own way back, and
// sends a request for that over it. When this send() fails, since the peer has just gone, UCX takes the
// endpoint for one that only receives, arranges for its end, and then hands it out as one that sends; its end
// then fails an assertion and aborts the process (uct_tcp_ep_connect and uct_tcp_ep_destroy_progress).
//
// So UCX is told that such a send succeeded, which is no lie: bytes that a socket has taken may never arrive
// either. Receiving from that socket reports the end of the connection, which UCX takes well. The send() at
// the end of this file comes before the C library's where the executable exports it, as the functions of
// socket_guard.cpp do.
#include "net/socket_errors.hpp"

#include "net/library_calls.hpp"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace dualpath::net {
namespace {

/// UCX's requests for connections have some 34 bytes. Longer messages keep their errors.
constexpr std::size_t longest_request_bytes = 128;

using send_function = ssize_t (*)(int, const void*, std::size_t, int);

ssize_t library_send(int fd, const void* bytes, std::size_t count, int flags) {
  static const auto function = next_function<send_function>("send");
  return function(fd, bytes, count, flags);
}

std::atomic<std::uint64_t> borne{0};

bool peer_is_gone(int error) { return error == EPIPE || error == ECONNRESET; }

bool is_ucx(const void* caller) {
  static const auto code = ucx_socket_code();
  return code.holds(caller);
}

} // namespace

bool lost_peers_are_borne() { return comes_first("send", &::send) && ucx_socket_code().end != 0; }

std::uint64_t requests_to_lost_peers() { return borne; }

} // namespace dualpath::net

extern "C" ssize_t send(int fd, const void* bytes, size_t count, int flags) {
  using namespace dualpath::net;
  auto sent = library_send(fd, bytes, count, flags);
  if (sent >= 0 || !peer_is_gone(errno) || count > longest_request_bytes) return sent;
  auto error = errno;
  if (is_ucx(__builtin_return_address(0)) && is_tcp(fd)) {
    ++borne;
    return static_cast<ssize_t>(count);
  }
  errno = error;
  return -1;
}

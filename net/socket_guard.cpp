// UCX calls listen(), accept(), connect() and epoll_ctl() of the C library from libucs alone, through the
// dynamic linker, which looks into the executable first: the functions of those names at the end of this file
// come before the library's. They pass on every call but UCX's. The linker takes this file out of its archive
// because the fabric calls guard_ucx_sockets(), and exports them because shared libraries on its command line
// define them too; guard_ucx_sockets() checks that it did.
//
// A listener is marked by TCP_DEFER_ACCEPT, which UCX never sets. It also makes the kernel hold connections
// back until their first bytes are there, so that who says nothing costs nothing. Where the kernel cannot,
// with SYN cookies, connections come before their proof does. They wait (waiting_room.hpp), and epoll_ctl()
// is the fourth function here so that UCX's thread is woken for them: it gets the door where it names the
// listener.
#include "net/socket_guard.hpp"

#include "core/log.hpp"
#include "net/connection_proof.hpp"
#include "net/library_calls.hpp"
#include "net/waiting_room.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace dualpath::net {
namespace {

/// How long the kernel holds back a connection whose first bytes have not come. Lost ones come again well
/// within.
constexpr int patience_s = 10;
/// Connections looked at before accept() says that there is nothing more for now, since UCX holds its lock
/// meanwhile. What is left wakes its thread again at once.
constexpr int judged_at_a_time = 16;
constexpr std::size_t remembered_nonces = 16384;
/// Refusals within it are told in one line.
constexpr std::chrono::seconds burst{10};
constexpr int connect_limit_ms = 5000;

int library_listen(int fd, int backlog) {
  static const auto function = next_function<int (*)(int, int)>("listen");
  return function(fd, backlog);
}
int library_accept(int fd, sockaddr* peer, socklen_t* bytes) {
  static const auto function = next_function<int (*)(int, sockaddr*, socklen_t*)>("accept");
  return function(fd, peer, bytes);
}
int library_connect(int fd, const sockaddr* to, socklen_t bytes) {
  static const auto function = next_function<int (*)(int, const sockaddr*, socklen_t)>("connect");
  return function(fd, to, bytes);
}
int library_epoll_ctl(int set, int what, int fd, epoll_event* event) {
  static const auto function = next_function<int (*)(int, int, int, epoll_event*)>("epoll_ctl");
  return function(set, what, fd, event);
}

int refuse(int error) {
  errno = error;
  return -1;
}

std::string text_of(const sockaddr_storage& from) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (from.ss_family == AF_INET) {
    auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return std::string{text.data()} + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (from.ss_family == AF_INET6) {
    auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return "[" + std::string{text.data()} + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return "unknown";
}

sockaddr_storage local_address(int fd) {
  sockaddr_storage at{};
  socklen_t bytes = sizeof at;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &bytes);
  return at;
}

sockaddr_storage peer_address(int fd) {
  sockaddr_storage from{};
  socklen_t bytes = sizeof from;
  ::getpeername(fd, reinterpret_cast<sockaddr*>(&from), &bytes);
  return from;
}

class guard {
public:
  guard(std::string_view secret, code_range ucx) : ucx_{ucx}, prover_{secret} {}

  void take(connection_prover prover) {
    std::lock_guard lock{mutex_};
    prover_ = prover;
  }
  bool is_ucx(const void* caller) const { return ucx_.holds(caller); }
  bool guards(const void* caller, int fd) const { return is_ucx(caller) && is_tcp(fd); }
  std::uint64_t refused() const { return refused_; }

  int listen(int fd, int backlog);
  int accept(int fd, sockaddr* peer, socklen_t* bytes);
  int connect(int fd, const sockaddr* to, socklen_t bytes);
  /// Whether a listener of UCX has had that number; quick, as UCX changes what it waits for while it sends.
  bool may_listen(int fd) const {
    return fd >= 0 && fd < known_numbers
           && listened_[static_cast<std::size_t>(fd)].load(std::memory_order_relaxed);
  }
  int epoll_ctl(int set, int what, int fd, epoll_event* event);

private:
  static constexpr const char* silent = "it said nothing";
  /// What is wrong with a connection to a listener; null: nothing. `silent`: that is not known yet.
  const char* judge(int connection);
  std::shared_ptr<waiting_room> room_of(int listener);
  void refuse_connection(int connection, const char* why) noexcept;
  void tell(int connection, const char* why) noexcept;

  static constexpr int known_numbers = 65536;

  const code_range ucx_;
  std::array<std::atomic<bool>, known_numbers> listened_{};
  std::mutex rooms_mutex_;
  std::map<int, std::shared_ptr<waiting_room>> rooms_; ///< by listener, while UCX waits for it
  std::atomic<std::uint64_t> refused_{0};
  std::mutex mutex_;
  connection_prover prover_;
  nonce_memory used_{remembered_nonces};
  std::chrono::steady_clock::time_point told_at_{};
};

int guard::listen(int fd, int backlog) {
  if (::setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &patience_s, sizeof patience_s) != 0) return -1;
  auto listening = library_listen(fd, backlog);
  if (listening == 0 && fd < known_numbers) listened_[static_cast<std::size_t>(fd)] = true;
  return listening;
}

const char* guard::judge(int connection) {
  connection_proof proof;
  auto got = ::recv(connection, proof.data(), proof.size(), MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return silent;
  // It comes in one segment, so that a part of it is none.
  if (got != static_cast<ssize_t>(proof.size())) return "it did not start with a proof of the secret";
  auto at = local_address(connection);
  std::lock_guard lock{mutex_};
  if (!prover_.verify(proof, at)) return "it does not hold the secret of this cluster";
  return used_.add(proof) ? nullptr : "its proof was used before";
}

void guard::tell(int connection, const char* why) noexcept {
  auto so_far = ++refused_;
  {
    std::lock_guard lock{mutex_};
    auto now = std::chrono::steady_clock::now();
    if (told_at_ != std::chrono::steady_clock::time_point{} && now - told_at_ < burst) return;
    told_at_ = now;
  }
  try {
    core::log_event(core::log_level::warn, "connection_refused",
                    {{"from", text_of(peer_address(connection))},
                     {"to", text_of(local_address(connection))},
                     {"why", why},
                     {"refused_so_far", so_far}});
  } catch (...) { // a line that cannot be written is no reason to fail UCX's thread
  }
}

/// What UCX does about an error of accept() other than these is to close its listener for good.
bool closes_for_good(int error) {
  switch (error) {
  case EAGAIN:
  case EINTR:
  case EBADF:
  case ENOTSOCK:
  case EINVAL:
  case EFAULT:
  case EOPNOTSUPP:
    return false; // nothing to be done about it, or to be said by somebody else
  default:
    return true;
  }
}

std::shared_ptr<waiting_room> guard::room_of(int listener) {
  std::lock_guard lock{rooms_mutex_};
  auto found = rooms_.find(listener);
  return found == rooms_.end() ? nullptr : found->second;
}

void guard::refuse_connection(int connection, const char* why) noexcept {
  tell(connection, why);
  ::close(connection);
}

int guard::accept(int fd, sockaddr* peer, socklen_t* bytes) {
  auto room = room_of(fd);
  for (int judged = 0; judged < judged_at_a_time; ++judged) {
    auto connection = room ? room->next_to_speak() : -1;
    if (connection < 0) connection = library_accept(fd, nullptr, nullptr);
    // An error of one connection, or descriptors or memory that are short for a while: UCX's thread waits for
    // the listener to be readable, is woken again as long as connections wait, and so goes on by itself.
    if (connection < 0) return refuse(closes_for_good(errno) ? EAGAIN : errno);
    auto* wrong = judge(connection);
    if (wrong == nullptr) {
      if (peer == nullptr || ::getpeername(connection, peer, bytes) == 0) return connection;
      ::close(connection); // it has broken since
    } else if (wrong != silent || !room) {
      refuse_connection(connection, wrong);
    } else if (auto out = room->admit(connection); out >= 0) {
      refuse_connection(out, silent);
    }
  }
  return refuse(EAGAIN);
}

int guard::epoll_ctl(int set, int what, int fd, epoll_event* event) {
  auto room = room_of(fd);
  if (what == EPOLL_CTL_ADD) { // of a new socket, whatever had its number before
    auto listens = socket_option(fd, SOL_SOCKET, SO_ACCEPTCONN) != 0;
    listened_[static_cast<std::size_t>(fd)] = listens;
    room = listens ? waiting_room::open(fd) : nullptr; // without one, who is late is closed
  }
  auto status = library_epoll_ctl(set, what, room ? room->door() : fd, event);
  std::lock_guard lock{rooms_mutex_};
  if (what != EPOLL_CTL_MOD) rooms_.erase(fd);
  if (what == EPOLL_CTL_ADD && room && status == 0) rooms_[fd] = room;
  return status;
}

/// Sends the proof over a connection that is open. It has room for it, being new.
int open_with(int fd, const connection_proof& proof) {
  auto sent = ::send(fd, proof.data(), proof.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // UCX finds out as it would of a connection that breaks now, and tries again.
  if (sent != static_cast<ssize_t>(proof.size())) ::shutdown(fd, SHUT_RDWR);
  return 0;
}

int wait_and_open(int fd, const connection_proof& proof) {
  pollfd ready{fd, POLLOUT, 0};
  int found = 0;
  do {
    found = ::poll(&ready, 1, connect_limit_ms);
  } while (found < 0 && errno == EINTR);
  if (found == 0) return refuse(ETIMEDOUT);
  if (found < 0) return -1;
  if (auto error = socket_option(fd, SOL_SOCKET, SO_ERROR); error != 0) return refuse(error);
  return open_with(fd, proof);
}

/// Of a socket that must not wait: the proof is queued while the connection is still being made, which only
/// TCP fast open can do. Without a cookie, since the first bytes need not be in the first segment.
int connect_without_waiting(int fd, const sockaddr* to, socklen_t bytes, const connection_proof& proof) {
  constexpr int yes = 1;
  ssize_t queued = -1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, &yes, sizeof yes) == 0) {
    queued = ::sendto(fd, proof.data(), proof.size(), MSG_FASTOPEN | MSG_DONTWAIT | MSG_NOSIGNAL, to, bytes);
    if (queued == static_cast<ssize_t>(proof.size())) return refuse(EINPROGRESS);
    if (queued >= 0) return refuse(ENOBUFS); // a part of it is of no use
  }
  // Fast open is switched off or not there; EINPROGRESS says that it connects all the same, with nothing
  // queued.
  if (errno != EINPROGRESS) {
    if (errno != EOPNOTSUPP && errno != ENOPROTOOPT) return -1;
    if (library_connect(fd, to, bytes) == 0) return open_with(fd, proof);
    if (errno != EINPROGRESS) return -1;
  }
  return wait_and_open(fd, proof);
}

int guard::connect(int fd, const sockaddr* to, socklen_t bytes) {
  sockaddr_storage address{};
  if (to == nullptr || bytes > sizeof address) return library_connect(fd, to, bytes);
  std::memcpy(&address, to, bytes);
  std::optional<connection_proof> proof;
  {
    std::lock_guard lock{mutex_};
    proof = prover_.make(address);
  }
  if (!proof) return refuse(EAFNOSUPPORT);
  if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) return connect_without_waiting(fd, to, bytes, *proof);
  return library_connect(fd, to, bytes) == 0 ? open_with(fd, *proof) : -1;
}

/// Set once and never taken back: UCX's thread goes on past the end of main().
std::atomic<guard*> active{nullptr};

guard* guard_of(const void* caller, int fd) {
  auto* now = active.load(std::memory_order_acquire);
  return now != nullptr && now->guards(caller, fd) ? now : nullptr;
}

core::error unreachable(const std::string& why) {
  return {
      core::errc::unsupported,
      "the ports of UCX cannot be guarded by the cluster's secret: " + why
          + "; link libucs dynamically, and let the executable export listen, accept, connect and epoll_ctl"};
}

} // namespace

core::result<void> guard_ucx_sockets(std::string_view secret) {
  static std::mutex one_at_a_time;
  std::lock_guard lock{one_at_a_time};
  if (auto* already = active.load()) {
    already->take(connection_prover{secret});
    return {};
  }
  auto ucx = ucx_socket_code();
  if (ucx.end == 0) return unreachable("ucs_socket_connect is not in a shared library");
  if (!comes_first("listen", &::listen) || !comes_first("accept", &::accept)
      || !comes_first("connect", &::connect) || !comes_first("epoll_ctl", &::epoll_ctl))
    return unreachable("its calls go to the C library directly");
  active.store(new guard{secret, ucx}, std::memory_order_release);
  return {};
}

std::uint64_t ucx_connections_refused() {
  auto* now = active.load(std::memory_order_acquire);
  return now == nullptr ? 0 : now->refused();
}

} // namespace dualpath::net

extern "C" {

int listen(int fd, int backlog) noexcept {
  auto* guard = dualpath::net::guard_of(__builtin_return_address(0), fd);
  return guard != nullptr ? guard->listen(fd, backlog) : dualpath::net::library_listen(fd, backlog);
}

int accept(int fd, sockaddr* __restrict peer, socklen_t* __restrict bytes) {
  auto* guard = dualpath::net::guard_of(__builtin_return_address(0), fd);
  // A listener older than the guard is not marked: its peers send no proof either.
  if (guard != nullptr && dualpath::net::socket_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) != 0)
    return guard->accept(fd, peer, bytes);
  return dualpath::net::library_accept(fd, peer, bytes);
}

int connect(int fd, const sockaddr* to, socklen_t bytes) {
  auto* guard = dualpath::net::guard_of(__builtin_return_address(0), fd);
  return guard != nullptr ? guard->connect(fd, to, bytes) : dualpath::net::library_connect(fd, to, bytes);
}

int epoll_ctl(int set, int what, int fd, epoll_event* event) noexcept {
  auto* guard = dualpath::net::active.load(std::memory_order_acquire);
  if (guard != nullptr && guard->may_listen(fd) && guard->is_ucx(__builtin_return_address(0)))
    return guard->epoll_ctl(set, what, fd, event);
  return dualpath::net::library_epoll_ctl(set, what, fd, event);
}

} // extern "C"

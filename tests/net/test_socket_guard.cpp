// The guard under the functions by which UCX opens its sockets, and under everybody else's.
#include "net/socket_guard.hpp"

#include "net/connection_proof.hpp"
#include "world.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <ucs/sys/event_set.h>
#include <ucs/sys/sock.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <thread>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

constexpr int limit_ms = 30'000;

struct owned_fd {
  int fd = -1;

  explicit owned_fd(int number) : fd{number} {}
  owned_fd(owned_fd&& other) noexcept : fd{std::exchange(other.fd, -1)} {}
  ~owned_fd() { close(); }
  void close() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
};

sockaddr_in loopback_port(std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(port);
  return out;
}

sockaddr_in address_of(int fd) {
  sockaddr_in out{};
  socklen_t bytes = sizeof out;
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&out), &bytes) == 0);
  return out;
}

const sockaddr* generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

bool await(int fd, short what) {
  pollfd ready{fd, what, 0};
  return ::poll(&ready, 1, limit_ms) == 1;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  REQUIRE(::getsockopt(fd, level, name, &value, &bytes) == 0);
  return value;
}

/// A listener of UCX.
struct listener {
  owned_fd socket;
  sockaddr_in address;

  static listener open() {
    REQUIRE(guard_ucx_sockets(cluster_secret));
    int fd = -1;
    auto any = loopback_port(0);
    REQUIRE(ucs_socket_server_init(generic(any), sizeof any, 100, 0, 0, &fd) == UCS_OK);
    return {owned_fd{fd}, address_of(fd)};
  }
  /// What UCX's thread does once the listener is readable.
  ucs_status_t accept_now(int& connection) const {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    connection = -1;
    return ucs_socket_accept(socket.fd, reinterpret_cast<sockaddr*>(&peer), &bytes, &connection);
  }
  owned_fd accept() const {
    int connection = -1;
    ucs_status_t status = UCS_ERR_NO_PROGRESS;
    while (status == UCS_ERR_NO_PROGRESS && await(socket.fd, POLLIN)) status = accept_now(connection);
    CHECK(status == UCS_OK);
    return owned_fd{connection};
  }
};

owned_fd fresh(int flags = 0) { return owned_fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)}; }

/// A connection of somebody else, which says that.
owned_fd outsider(const listener& to, const std::string& says) {
  auto made = fresh();
  REQUIRE(::connect(made.fd, generic(to.address), sizeof to.address) == 0);
  REQUIRE(::send(made.fd, says.data(), says.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(says.size()));
  return made;
}

/// Whether what one end says is the first thing that the other hears.
bool hears(int from, int to) {
  std::string said = "hello", heard(5, '\0');
  REQUIRE(::send(from, said.data(), said.size(), MSG_NOSIGNAL) == 5);
  REQUIRE(await(to, POLLIN));
  return ::recv(to, heard.data(), heard.size(), MSG_WAITALL) == 5 && heard == said;
}

void meet_without_waiting(const listener& at) {
  auto client = fresh(SOCK_NONBLOCK);
  auto status = ucs_socket_connect(client.fd, generic(at.address));
  REQUIRE((status == UCS_OK || status == UCS_INPROGRESS));
  REQUIRE(await(client.fd, POLLOUT));
  CHECK(option(client.fd, SOL_SOCKET, SO_ERROR) == 0);
  auto server = at.accept();
  CHECK(hears(client.fd, server.fd));
  CHECK(hears(server.fd, client.fd));
}

/// Runs the rest of a test in a network of its own, with that setting of net.ipv4.
void in_a_network_where(const std::string& setting, int value, const std::function<void()>& rest) {
  bool there = false;
  std::exception_ptr failure;
  std::thread{[&] {
    if (::unshare(CLONE_NEWNET) != 0) return; // this thread only
    std::ofstream file{"/proc/sys/net/ipv4/" + setting};
    if (!(file << value << std::flush)) return;
    ifreq lo{};
    std::strcpy(lo.ifr_name, "lo");
    lo.ifr_flags = IFF_UP;
    auto any = fresh();
    if (::ioctl(any.fd, SIOCSIFFLAGS, &lo) != 0) return;
    there = true;
    try {
      rest();
    } catch (...) {
      failure = std::current_exception();
    }
  }}.join();
  if (!there) WARN("skipped: needs CAP_SYS_ADMIN for a network namespace, and net.ipv4." << setting);
  if (failure) std::rethrow_exception(failure);
}

/// As UCX's thread waits for a listener.
class watcher {
public:
  explicit watcher(const listener& of) {
    REQUIRE(ucs_event_set_create(&events_) == UCS_OK);
    watch(of.socket.fd);
  }
  ~watcher() {
    leave();
    ucs_event_set_cleanup(events_);
  }
  void watch(int fd) {
    of_ = fd;
    REQUIRE(ucs_event_set_add(events_, of_, UCS_EVENT_SET_EVREAD, nullptr) == UCS_OK);
  }
  void leave() {
    if (of_ >= 0) CHECK(ucs_event_set_del(events_, std::exchange(of_, -1)) == UCS_OK);
  }
  bool woken(int within_ms) {
    unsigned count = 1;
    ucs_event_set_wait(
        events_, &count, within_ms, [](void*, ucs_event_set_types_t, void*) {}, nullptr);
    return count == 1;
  }
  /// Accepts until nothing is left to be done; what it got.
  std::vector<owned_fd> accept_all(const listener& at) {
    std::vector<owned_fd> got;
    while (woken(0)) {
      int connection = -1;
      auto status = at.accept_now(connection);
      REQUIRE((status == UCS_OK || status == UCS_ERR_NO_PROGRESS));
      if (status == UCS_OK) got.emplace_back(connection);
    }
    return got;
  }

private:
  int of_ = -1;
  ucs_sys_event_set_t* events_ = nullptr;
};

void say_proof(const owned_fd& from, const listener& to) {
  sockaddr_storage address{};
  std::memcpy(&address, &to.address, sizeof to.address);
  auto proof = connection_prover{cluster_secret}.make(address);
  REQUIRE(proof);
  REQUIRE(::send(from.fd, proof->data(), proof->size(), MSG_NOSIGNAL) == static_cast<ssize_t>(proof->size()));
}

bool closed_by_peer(const owned_fd& connection) {
  char byte = 0;
  return await(connection.fd, POLLIN) && ::recv(connection.fd, &byte, 1, 0) <= 0;
}

} // namespace

TEST_CASE("sockets of UCX meet, and hear nothing but what UCX says") {
  auto at = listener::open();
  auto client = fresh();
  REQUIRE(ucs_socket_connect(client.fd, generic(at.address)) == UCS_OK);
  auto server = at.accept();
  CHECK(hears(client.fd, server.fd));
  CHECK(hears(server.fd, client.fd));
}

TEST_CASE("a socket of UCX that must not wait proves the secret while it connects") {
  meet_without_waiting(listener::open());
}

TEST_CASE("a socket of UCX that must not wait connects where TCP fast open is switched off") {
  in_a_network_where("tcp_fastopen", 0, [] { meet_without_waiting(listener::open()); });
}

TEST_CASE("a port where nobody listens refuses a socket of UCX as it would without the guard") {
  auto closed = listener::open();
  closed.socket.close();
  auto waiting = fresh(), not_waiting = fresh(SOCK_NONBLOCK);
  CHECK(ucs_socket_connect(waiting.fd, generic(closed.address)) == UCS_ERR_UNREACHABLE);
  CHECK(ucs_socket_connect(not_waiting.fd, generic(closed.address)) == UCS_INPROGRESS);
  REQUIRE(await(not_waiting.fd, POLLOUT));
  CHECK(option(not_waiting.fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
}

TEST_CASE("however many outsiders come first, UCX sees none of them, and the peer behind them") {
  auto at = listener::open();
  auto before = ucx_connections_refused();
  std::vector<owned_fd> outsiders;
  for (int i = 0; i < 50; ++i) outsiders.push_back(outsider(at, i % 2 == 0 ? "x" : std::string(200, 'y')));
  auto client = fresh();
  REQUIRE(ucs_socket_connect(client.fd, generic(at.address)) == UCS_OK);
  auto server = at.accept();
  CHECK(hears(client.fd, server.fd));
  CHECK(ucx_connections_refused() == before + 50);
}

TEST_CASE("a connection that breaks before it is accepted does not cost UCX its listener") {
  auto at = listener::open();
  auto broken = outsider(at, std::string(48, 'x'));
  linger at_once{1, 0};
  REQUIRE(::setsockopt(broken.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  REQUIRE(await(at.socket.fd, POLLIN));
  broken.close();
  int connection = -1;
  CHECK(at.accept_now(connection) == UCS_ERR_NO_PROGRESS);
  auto client = fresh();
  REQUIRE(ucs_socket_connect(client.fd, generic(at.address)) == UCS_OK);
  CHECK(hears(client.fd, at.accept().fd));
}

TEST_CASE("without descriptors UCX is told to wait, and the peer is accepted when there are some") {
  auto at = listener::open();
  auto client = fresh();
  REQUIRE(ucs_socket_connect(client.fd, generic(at.address)) == UCS_OK);
  REQUIRE(await(at.socket.fd, POLLIN));
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  auto none = usual;
  none.rlim_cur = 3;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  int connection = -1;
  auto status = at.accept_now(connection);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(status == UCS_ERR_NO_PROGRESS);
  CHECK(hears(client.fd, at.accept().fd));
}

// SYN cookies: what a kernel does for a listener that is flooded. It cannot hold connections back then.
TEST_CASE("who connects before the kernel has the proof waits for it, and UCX's thread is woken") {
  in_a_network_where("tcp_syncookies", 2, [] {
    auto at = listener::open();
    watcher thread{at};
    auto early = outsider(at, "");
    REQUIRE(thread.woken(limit_ms));
    CHECK(thread.accept_all(at).empty());
    say_proof(early, at);
    REQUIRE(thread.woken(limit_ms));
    auto admitted = thread.accept_all(at);
    REQUIRE(admitted.size() == 1);
    CHECK(hears(early.fd, admitted[0].fd));
    CHECK(hears(admitted[0].fd, early.fd));
  });
}

TEST_CASE("of those who say nothing the oldest go when there are many, and peers come past the rest") {
  in_a_network_where("tcp_syncookies", 2, [] {
    auto at = listener::open();
    watcher thread{at};
    auto before = ucx_connections_refused();
    std::vector<owned_fd> silent;
    for (int i = 0; i < 40; ++i) {
      silent.push_back(outsider(at, ""));
      REQUIRE(thread.woken(limit_ms));
      CHECK(thread.accept_all(at).empty());
    }
    CHECK(ucx_connections_refused() == before + 8); // 32 wait
    for (int i = 0; i < 8; ++i) CHECK(closed_by_peer(silent[static_cast<std::size_t>(i)]));
    say_proof(silent.back(), at);
    REQUIRE(thread.woken(limit_ms));
    CHECK(thread.accept_all(at).size() == 1);
    auto client = fresh();
    REQUIRE(ucs_socket_connect(client.fd, generic(at.address)) == UCS_OK);
    auto server = at.accept();
    CHECK(hears(client.fd, server.fd));
  });
}

TEST_CASE("who waits and hangs up is let go, and so are all when UCX leaves the listener") {
  in_a_network_where("tcp_syncookies", 2, [] {
    auto at = listener::open();
    watcher thread{at};
    auto before = ucx_connections_refused();
    auto seated = [&] {
      auto made = outsider(at, "");
      REQUIRE(thread.woken(limit_ms));
      CHECK(thread.accept_all(at).empty());
      return made;
    };
    auto brief = seated(), silent = seated();
    brief.close();
    REQUIRE(thread.woken(limit_ms));
    CHECK(thread.accept_all(at).empty());
    CHECK(ucx_connections_refused() == before + 1);
    thread.leave();
    CHECK(closed_by_peer(silent));
  });
}

TEST_CASE("a connection whose descriptor was a listener's, closed while UCX waited for it, is a connection") {
  auto other = listener::open();
  auto client = fresh();
  REQUIRE(ucs_socket_connect(client.fd, generic(other.address)) == UCS_OK);
  auto server = other.accept();
  auto at = listener::open();
  watcher thread{at};
  REQUIRE(::dup2(server.fd, at.socket.fd) == at.socket.fd); // closes the listener
  thread.watch(at.socket.fd);
  CHECK_FALSE(thread.woken(0));
  REQUIRE(::send(client.fd, "x", 1, MSG_NOSIGNAL) == 1);
  CHECK(thread.woken(limit_ms));
}

TEST_CASE("TCP of others than UCX is what it is without the guard") {
  REQUIRE(guard_ucx_sockets(cluster_secret));
  auto server = fresh(), client = fresh();
  auto any = loopback_port(0);
  REQUIRE(::bind(server.fd, generic(any), sizeof any) == 0);
  REQUIRE(::listen(server.fd, 10) == 0);
  CHECK(option(server.fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) == 0);
  auto address = address_of(server.fd);
  REQUIRE(::connect(client.fd, generic(address), sizeof address) == 0);
  owned_fd accepted{::accept(server.fd, nullptr, nullptr)}; // while nothing was said
  REQUIRE(accepted.fd >= 0);
  CHECK(hears(accepted.fd, client.fd));
  CHECK(hears(client.fd, accepted.fd));
}

TEST_CASE("sockets of UCX that are not TCP are what they are without the guard") {
  REQUIRE(guard_ucx_sockets(cluster_secret));
  sockaddr_un own{};
  own.sun_family = AF_UNIX; // and no name: the kernel draws one
  int fd = -1;
  REQUIRE(ucs_socket_server_init(reinterpret_cast<sockaddr*>(&own), sizeof own.sun_family, 10, 0, 0, &fd)
          == UCS_OK);
  owned_fd server{fd}, client{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  socklen_t bytes = sizeof own;
  REQUIRE(::getsockname(server.fd, reinterpret_cast<sockaddr*>(&own), &bytes) == 0);
  REQUIRE(::connect(client.fd, reinterpret_cast<sockaddr*>(&own), bytes) == 0);
  int accepted = -1;
  sockaddr_storage peer{};
  socklen_t room = sizeof peer;
  REQUIRE(ucs_socket_accept(server.fd, reinterpret_cast<sockaddr*>(&peer), &room, &accepted) == UCS_OK);
  owned_fd owner{accepted};
  CHECK(hears(client.fd, accepted));
}

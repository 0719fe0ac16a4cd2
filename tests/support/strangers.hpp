// Strangers at the TCP ports of a process: where it listens, how UCX 1.13 speaks over TCP, and what becomes
// of a connection that says it.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace dualpath::testing {

/// The inodes of the sockets that a process has open.
inline std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (auto& entry : std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/fd", gone}) {
    auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

inline sockaddr_in at_host(in_addr_t host, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = host;
  return to;
}

/// The IPv4 addresses at which a process listens.
inline std::vector<sockaddr_in> listeners_of(pid_t pid) {
  auto own = sockets_of(pid);
  std::vector<sockaddr_in> listeners;
  std::ifstream table{"/proc/net/tcp"};
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream columns{line};
    std::string slot, local, remote, state, queues, timer, retries, user, timeout, inode;
    columns >> slot >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >> inode;
    constexpr const char* listening = "0A";
    if (state != listening || !own.contains(inode)) continue;
    auto colon = local.find(':');
    // The table shows the address as a number of this machine, the port as one to be read.
    auto host = static_cast<in_addr_t>(std::stoul(local.substr(0, colon), nullptr, 16));
    auto port = static_cast<std::uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16));
    listeners.push_back(at_host(host, port));
  }
  return listeners;
}

/// A connection to a listener of this machine.
class stranger {
public:
  explicit stranger(const sockaddr_in& to) : fd_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~stranger() { ::close(fd_); }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;

  bool connected() const { return connected_; }
  void say(const std::string& bytes) { (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// What comes back first: "answered", "closed", or "nothing" within a generous limit.
  std::string outcome() {
    constexpr int limit_ms = 30'000;
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, limit_ms) <= 0) return "nothing";
    char byte = 0;
    return ::recv(fd_, &byte, 1, 0) > 0 ? "answered" : "closed";
  }

private:
  int fd_;
  bool connected_ = false;
};

/// As UCX 1.13 speaks: src/uct/tcp/tcp.h of its sources.
namespace ucx_wire {

enum message : std::uint8_t { any_of_ucp = 0, connection = 32, put = 33, put_answer = 34 };

template <class Number>
std::string raw(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// The first bytes of each connection.
inline std::string magic() { return raw(std::uint64_t{0xCAFEBABE12345678}); }

inline std::string framed(std::uint8_t what, const std::string& body) {
  return raw(what) + raw(static_cast<std::uint32_t>(body.size())) + body;
}

/// Asks for a connection, which UCX grants.
inline std::string request(std::uint64_t number) {
  constexpr std::uint32_t asks = 1;
  constexpr std::uint8_t no_flags = 0;
  return framed(connection,
                raw(asks) + raw(no_flags) + raw(number) + raw(at_host(htonl(INADDR_LOOPBACK), 1)));
}

/// Writes to an address that no process has.
inline std::string wild_put() {
  return framed(put, raw(std::uint64_t{8}) + raw(std::uint64_t{64}) + raw(std::uint32_t{1}))
         + std::string(64, '\xff');
}

/// A greeting that is right, and then anything.
inline std::string gone_wrong(std::mt19937_64& random) {
  std::string garbage(random() % 400, '\0');
  for (auto& byte : garbage) byte = static_cast<char>(random());
  auto greeted = magic() + (random() % 2 == 0 ? request(random()) : "");
  switch (random() % 4) {
  case 0:
    return greeted + wild_put();
  case 1:
    return greeted + framed(static_cast<std::uint8_t>(random() % 40), garbage);
  case 2:
    return greeted + raw(static_cast<std::uint8_t>(random() % 40)) + raw(std::uint32_t{0xffffffff}) + garbage;
  default:
    return greeted + garbage;
  }
}

} // namespace ucx_wire
} // namespace dualpath::testing

// Strangers on every port of a cluster that serves.
#include "../cluster_run.hpp"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

using namespace dualpath::testing;

namespace {

/// The inodes of the sockets that a process has open.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (auto& entry : std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/fd", gone}) {
    auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

/// The TCP ports at which a process listens.
std::vector<std::uint16_t> ports_of(pid_t pid) {
  auto own = sockets_of(pid);
  std::vector<std::uint16_t> ports;
  std::ifstream table{"/proc/net/tcp"};
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream columns{line};
    std::string slot, local, remote, state, queues, timer, retries, user, timeout, inode;
    columns >> slot >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >> inode;
    constexpr const char* listening = "0A";
    if (state == listening && own.contains(inode))
      ports.push_back(static_cast<std::uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

/// Garbage, or garbage that starts like something a listener might go along with.
std::string hostile_bytes(std::mt19937_64& random) {
  std::string garbage(random() % 4000, '\0');
  for (auto& byte : garbage) byte = static_cast<char>(random());
  static const std::string starts[] = {"", std::string("\x16\x03\x01\x02\x00\x01", 6), "GET / HTTP/1.1\r\n",
                                       std::string(64, '\0'), std::string("\x00\x00\x00\x40\x00\x00", 6)};
  return starts[random() % std::size(starts)] + garbage;
}

bool throw_at(std::uint16_t port, const std::string& bytes) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto connected = ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  if (connected) (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::close(fd);
  return connected;
}

unsigned seconds_of_fuzzing() {
  auto* given = std::getenv("DUALPATH_FUZZ_SECONDS");
  return given == nullptr ? 5 : static_cast<unsigned>(std::atoi(given));
}

} // namespace

TEST_CASE("hostile bytes on any port close their own connection and nothing else") {
  auto* given = std::getenv("DUALPATH_SEED");
  auto seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  INFO("DUALPATH_SEED=" << seed);
  std::mt19937_64 random{seed};
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds{seconds_of_fuzzing()};
  std::uint64_t thrown = 0, listeners = 0;
  do {
    workplace place;
    hand_cluster cluster{place,
                         words{"run", "--cluster", "1P2D", "--transports", "tcp"} + long_workload("5MB/s")};
    cluster.join();
    cluster.join();
    cluster.await_requests(5);
    std::vector<pid_t> processes{cluster.head().pid(), cluster.node(0).pid(), cluster.node(1).pid()};
    while (std::chrono::steady_clock::now() < until && ports_of(processes[0]).size() > 0) {
      for (auto process : processes) {
        auto ports = ports_of(process);
        listeners = std::max<std::uint64_t>(listeners, ports.size());
        for (auto port : ports) thrown += throw_at(port, hostile_bytes(random));
      }
    }
    auto status = cluster.finish();
    INFO(cluster.head().output());
    REQUIRE(status == 0);
    auto report = read_report(cluster.report_path());
    CHECK(report.warnings.empty());
    CHECK(report.digests.at(0) == digest_of_one_process(long_workload()));
    for (std::size_t i = 0; i < 2; ++i) CHECK(cluster.node(i).wait() == 0);
  } while (std::chrono::steady_clock::now() < until);
  std::cout << thrown << " hostile connections, up to " << listeners << " ports a process" << std::endl;
  CHECK(thrown > 100);
  CHECK(listeners >= 4); // the control plane's and three lanes'
}

// A host whose network has gone: nobody refuses a connection to it, and nobody answers.
#include "world.hpp"

#include "net/ucx_fabric.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <thread>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

/// A network that swallows what is sent to others in it. In a namespace of the calling thread.
class silent_network {
public:
  static constexpr const char* device = "tun0";

  silent_network()
      : tun_{::open("/dev/net/tun", O_RDWR | O_CLOEXEC)}, control_{::socket(AF_INET, SOCK_DGRAM, 0)} {
    auto named = request(device);
    named.ifr_flags = IFF_TUN | IFF_NO_PI;
    usable_ =
        tun_ >= 0 && ::ioctl(tun_, TUNSETIFF, &named) == 0 && up("lo"); // by which its own address is reached
  }
  ~silent_network() {
    ::close(tun_);
    ::close(control_);
  }
  silent_network(const silent_network&) = delete;

  explicit operator bool() const { return usable_; }
  /// The only address that this machine has in it.
  bool move_to(const char* address) {
    return set(SIOCSIFADDR, address) && set(SIOCSIFNETMASK, "255.255.255.0") && up(device);
  }

private:
  static ifreq request(const char* of) {
    ifreq out{};
    std::strcpy(out.ifr_name, of);
    return out;
  }
  bool set(unsigned long what, const char* address) {
    auto wanted = request(device);
    sockaddr_in in{};
    in.sin_family = AF_INET;
    ::inet_pton(AF_INET, address, &in.sin_addr);
    std::memcpy(&wanted.ifr_addr, &in, sizeof in);
    return ::ioctl(control_, what, &wanted) == 0;
  }
  bool up(const char* which) {
    auto wanted = request(which);
    wanted.ifr_flags = IFF_UP | IFF_RUNNING;
    return ::ioctl(control_, SIOCSIFFLAGS, &wanted) == 0;
  }

  int tun_, control_;
  bool usable_ = false;
};

/// For this thread and those that it starts. UCX finds devices in /sys, which shows those of the network in
/// which it was mounted.
bool enter_own_network() {
  return ::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0
         && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0
         && ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
}

/// False where this machine has no such network for us.
template <class Test>
bool in_a_silent_network(Test test) {
  bool there = false;
  std::exception_ptr failure;
  std::thread{[&] {
    if (!enter_own_network()) return;
    silent_network network;
    if (!network) return;
    there = true;
    try {
      test(network);
    } catch (...) {
      failure = std::current_exception();
    }
  }}.join();
  if (failure) std::rethrow_exception(failure);
  return there;
}

/// Fabrics over TCP in that network.
class silent_world final : public world {
public:
  std::unique_ptr<fabric> open(const identity& self) override {
    ucx_fabric_options options;
    options.clock = &clock_;
    options.self = self;
    options.transports = "tcp";
    options.secret = cluster_secret;
    options.settings = {{"NET_DEVICES", silent_network::device}};
    auto opened = open_ucx_fabric(std::move(options));
    if (!opened) FAIL(opened.error().text);
    return std::move(*opened);
  }
  core::clock& clock() override { return clock_; }
  bool let_run(const std::function<bool(std::chrono::milliseconds)>& reached) override {
    return reached(60s);
  }

private:
  core::steady_clock clock_;
};

} // namespace

TEST_CASE("a host that does not answer holds up no transfer to others, and no close") {
  auto there = in_a_silent_network([](silent_network& network) {
    silent_world around;
    REQUIRE(network.move_to("192.0.2.2"));
    auto address = around.open(engine(9))->address();
    REQUIRE(network.move_to("192.0.2.1"));
    pair_of_fabrics pair{around, 1 << 20};

    outcome<core::result<peer_id>> reached;
    pair.a->connect(address, around.clock().now() + 600s,
                    [reached](auto found) mutable { reached.set(std::move(found)); });
    for (auto lane : {lane::control, lane::kv, lane::collective})
      CHECK_FALSE(put(around, *pair.a, pair.from_a({{0, 0, 4096, 4096, 4096, 16}}, lane)));
    CHECK(reached.count() == 0);

    pair.a.reset();
    auto ended = around.await(reached);
    REQUIRE(ended.size() == 1);
    CHECK(tells(ended.front().error(), core::errc::disconnected, "the connection to engine 9 was closed"));
  });
  if (!there) WARN("skipped: needs CAP_SYS_ADMIN for a network namespace, and /dev/net/tun");
}

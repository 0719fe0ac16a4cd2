// Whether the traffic classes of the lanes are what leaves the port, counted by the kernel's queues.
#include "core/policy/qos.hpp"
#include "net/lane_qos.hpp"
#include "net/ucx_fabric.hpp"
#include "net/verbs_devices.hpp"
#include "tests/net/world.hpp"

#include <cstdio>
#include <sstream>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

std::string output_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe{popen((command + " 2>&1").c_str(), "r"), pclose};
  std::string text;
  char part[4096];
  while (auto count = std::fread(part, 1, sizeof part, pipe.get())) text.append(part, count);
  return text;
}

/// Bytes each class sent through eth0 so far: "class ets 1:3 …\n Sent 4711 bytes …".
std::vector<std::uint64_t> sent_by_class(const core::qos_config& config) {
  std::vector<std::uint64_t> sent(config.classes.size());
  std::istringstream lines{output_of("tc -s class show dev eth0")};
  unsigned lane = 0;
  for (std::string line; std::getline(lines, line);) {
    unsigned minor = 0;
    unsigned long long bytes = 0;
    if (std::sscanf(line.c_str(), "class ets 1:%u", &minor) == 1) lane = minor - 1;
    if (std::sscanf(line.c_str(), " Sent %llu bytes", &bytes) == 1 && lane < sent.size()) sent[lane] = bytes;
  }
  return sent;
}

} // namespace

TEST_CASE("every lane leaves the port in its own traffic class") {
  core::qos_config config;
  output_of("tc qdisc del dev eth0 root");
  auto said = output_of(core::roce_commands(config, {"eth0", "rxe0", core::dcb_tool::tc}));
  INFO(said << output_of("tc filter show dev eth0"));

  auto ports = list_verbs_ports();
  REQUIRE(ports);
  core::steady_clock clock;
  auto fabric_on = [&](const char* device, std::uint32_t number) {
    ucx_fabric_options options;
    options.clock = &clock;
    options.self = engine(number);
    options.transports = "rc_v";
    options.settings = {{"NET_DEVICES", device}};
    options.lane_settings = lane_settings_for(config, *ports);
    auto opened = open_ucx_fabric(std::move(options));
    if (!opened) FAIL(opened.error().text);
    return std::move(*opened);
  };
  auto a = fabric_on("rxe0:1", 1), b = fabric_on("rxe1:1", 2);
  auto wait = [&](auto& box) {
    REQUIRE(box.wait_for(1, std::chrono::seconds{60}));
    return box.values()[0];
  };
  outcome<core::result<peer_id>> connected;
  a->connect(b->address(), clock.now() + 30s,
             [connected](core::result<peer_id> peer) mutable { connected.set(peer); });
  auto peer = wait(connected);
  REQUIRE(peer);
  constexpr std::uint64_t bytes = 1 << 20;
  auto here = a->allocate(bytes), there = b->allocate(bytes);
  REQUIRE((here && there));
  auto remote = a->import_region(*peer, *b->export_region(there->id));
  REQUIRE(remote);

  for (std::size_t i = 0; i < lane_count; ++i) {
    auto on = static_cast<lane>(i);
    INFO("lane " << to_string(on));
    auto lane_number = core::find_class(config, to_string(on))->lane;
    auto before = sent_by_class(config);
    outcome<ending> box;
    a->put({*peer, on, here->id, *remote, {{0, 0, 0, 0, bytes, 1}}, clock.now() + 30s}, into(box));
    REQUIRE_FALSE(wait(box));
    auto after = sent_by_class(config);
    for (std::size_t c = 0; c < after.size(); ++c) {
      INFO("class " << config.classes[c].name << " sent " << after[c] - before[c] << " bytes");
      CHECK((after[c] - before[c] >= bytes) == (c == lane_number));
    }
  }
}

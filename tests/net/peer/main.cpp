// A fabric in a process of its own, for tests that kill it. Arguments: transports, "allocated" or "attached",
// bytes, RDMA device or nothing, secret or nothing. Prints the address and the exported region in
// hexadecimal, one a line, then obeys lines: "fill N" sets every byte of the region to N and answers "ok";
// "sum" answers the sum of all bytes, "refused" how many connections to UCX were. It ends with its input.
#include "net/socket_guard.hpp"
#include "net/ucx_fabric.hpp"

#include "hexadecimal.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <string>

using namespace dualpath;

namespace {

void print_hex(std::span<const std::byte> bytes) {
  std::printf("%s\n", net::testing::to_hex(bytes).c_str());
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  core::steady_clock clock;
  std::vector<std::byte> own; // the fabric uses it to its end
  net::ucx_fabric_options options;
  options.clock = &clock;
  options.transports = argv[1];
  if (std::string device = argv[4]; !device.empty()) options.settings.emplace_back("NET_DEVICES", device);
  options.secret = argv[5];
  options.self.engine = core::engine_id{2};
  options.self.model.bytes[0] = 7;
  options.self.layout = {.layers = 4, .block_tokens = 64, .token_bytes = 128};
  auto opened = net::open_ucx_fabric(options);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().text.c_str());
    return 1;
  }
  auto& fabric = **opened;
  auto size = std::strtoull(argv[3], nullptr, 0);
  if (std::string{argv[2]} == "attached") own.resize(size);
  auto region = own.empty() ? fabric.allocate(size) : fabric.attach(own);
  if (!region) return 1;
  auto exported = fabric.export_region(region->id);
  if (!exported) return 1;
  print_hex(fabric.address());
  print_hex(*exported);
  for (std::string line; std::getline(std::cin, line);) {
    auto bytes = region->bytes;
    if (line.rfind("fill ", 0) == 0) {
      std::memset(bytes.data(), std::atoi(line.c_str() + 5), bytes.size());
      std::printf("ok\n");
    } else if (line == "sum") {
      auto sum = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                                 [](auto s, auto b) { return s + static_cast<unsigned char>(b); });
      std::printf("%llu\n", static_cast<unsigned long long>(sum));
    } else if (line == "refused") {
      std::printf("%llu\n", static_cast<unsigned long long>(net::ucx_connections_refused()));
    }
    std::fflush(stdout);
  }
}

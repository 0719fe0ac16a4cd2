#include "net/stream_copy.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <vector>

using namespace dualpath::net;

TEST_CASE("a copy past the caches writes what it was given, and nothing beside it, at any alignment") {
  auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  constexpr std::size_t most = 70'000, margin = 128;
  std::vector<std::byte> from(most + margin), to(most + 2 * margin), wanted;
  for (int round = 0; round < 300; ++round) {
    for (auto& each : from) each = static_cast<std::byte>(random());
    for (auto& each : to) each = static_cast<std::byte>(random());
    auto bytes = random() % 4 == 0 ? random() % 200 : random() % most;
    auto source = random() % margin, target = random() % margin;
    wanted = to;
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                wanted.begin() + static_cast<std::ptrdiff_t>(target));
    stream_copy(to.data() + target, from.data() + source, bytes);
    REQUIRE(to == wanted);
  }
}

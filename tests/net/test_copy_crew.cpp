#include "net/copy_crew.hpp"

#include "world.hpp"

#include <algorithm>
#include <random>
#include <vector>

using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

constexpr std::size_t share = copy_crew::share_bytes;

/// `bytes` cut into parts of at most `most` each, with gaps between them on both sides.
struct cut_up {
  cut_up(std::size_t bytes, std::size_t most, std::mt19937_64& random)
      : from(random_bytes(2 * bytes, random)), to(random_bytes(2 * bytes, random)), wanted(to) {
    for (std::size_t done = 0, at = 0; done < bytes;) {
      auto part = std::min(bytes - done, 1 + random() % most);
      parts.push_back({to.data() + at, from.data() + at, part});
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), part,
                  wanted.begin() + static_cast<std::ptrdiff_t>(at));
      done += part;
      at += part + random() % part;
    }
  }

  std::vector<std::byte> from, to, wanted;
  std::vector<copy_part> parts;
};

} // namespace

TEST_CASE("a crew copies every part, and nothing beside them, with any number of helpers") {
  auto start = seed();
  INFO("seed " << start);
  std::mt19937_64 random{start};
  for (unsigned helpers : {0U, 1U, 3U}) {
    copy_crew crew{helpers};
    for (int round = 0; round < 40; ++round) {
      auto bytes = round % 4 == 0 ? random() % share : random() % (8 * share);
      cut_up work{bytes, round % 2 == 0 ? 5'000 : 2 * share, random};
      crew.copy(work.parts);
      REQUIRE(work.to == work.wanted);
    }
  }
}

TEST_CASE("a crew starts no thread before something is long enough to be shared") {
  std::vector<std::byte> from(4 * share), to(from.size());
  std::vector<copy_part> parts;
  for (std::size_t at = 0; at < from.size(); at += share)
    parts.push_back({to.data() + at, from.data() + at, share});
  copy_crew crew{2};
  crew.copy({});
  crew.copy(std::span{parts}.first(1));
  CHECK(crew.started() == 0);
  crew.copy(parts);
  CHECK(crew.started() == 2);
}

#include "core/policy/role_watch.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;
using verdict = role_watch::verdict;

namespace {

constexpr duration patience = std::chrono::seconds{60};
constexpr instant at(int s) { return std::chrono::seconds{s}; }

} // namespace

TEST_CASE("a role that is missing while requests wait is awaited, and given up when the patience is used up",
          "[role_watch]") {
  role_watch watch{patience};
  CHECK(watch.observe(false, 5, at(0)) == verdict::served);
  CHECK(watch.observe(true, 5, at(10)) == verdict::awaited);
  CHECK(watch.observe(true, 1, at(69)) == verdict::awaited);
  CHECK(watch.observe(true, 1, at(70)) == verdict::given_up);
}

TEST_CASE("a newcomer in time stops the clock, which starts anew with the next loss", "[role_watch]") {
  role_watch watch{patience};
  CHECK(watch.observe(true, 5, at(0)) == verdict::awaited);
  CHECK(watch.observe(false, 5, at(59)) == verdict::served);
  CHECK(watch.observe(true, 5, at(61)) == verdict::awaited);
  CHECK(watch.observe(true, 5, at(120)) == verdict::awaited);
  CHECK(watch.observe(true, 5, at(121)) == verdict::given_up);
}

TEST_CASE("the time in which nobody asks for a missing role does not count", "[role_watch]") {
  role_watch watch{patience};
  CHECK(watch.observe(true, 0, at(0)) == verdict::served);
  CHECK(watch.observe(true, 0, at(1000)) == verdict::served);
  CHECK(watch.observe(true, 1, at(1001)) == verdict::awaited);
  CHECK(watch.observe(true, 1, at(1061)) == verdict::given_up);
}

TEST_CASE("without patience a missing role is given up at once, but not before requests wait for it",
          "[role_watch]") {
  role_watch watch;
  CHECK(watch.observe(true, 0, at(0)) == verdict::served);
  CHECK(watch.observe(true, 1, at(0)) == verdict::given_up);
}

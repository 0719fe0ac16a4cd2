#include "net/connection_proof.hpp"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

using namespace dualpath::net;

namespace {

sockaddr_storage v4(const char* host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  REQUIRE(inet_pton(AF_INET, host, &address.sin_addr) == 1);
  sockaddr_storage out{};
  std::memcpy(&out, &address, sizeof address);
  return out;
}

sockaddr_storage v6(const char* host, std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  REQUIRE(inet_pton(AF_INET6, host, &address.sin6_addr) == 1);
  sockaddr_storage out{};
  std::memcpy(&out, &address, sizeof address);
  return out;
}

} // namespace

TEST_CASE("a proof of the secret is good for the address it was made for and for no other") {
  connection_prover ours{"the secret"}, same{"the secret"}, other{"the secrets"}, none{""};
  auto here = v4("10.0.0.1", 4000);
  auto proof = ours.make(here);
  REQUIRE(proof);
  CHECK(same.verify(*proof, here));
  CHECK_FALSE(other.verify(*proof, here));
  CHECK_FALSE(none.verify(*proof, here));
  CHECK_FALSE(same.verify(*proof, v4("10.0.0.1", 4001)));
  CHECK_FALSE(same.verify(*proof, v4("10.0.0.2", 4000)));
  CHECK_FALSE(same.verify(*proof, v6("fd00::1", 4000)));
  CHECK_FALSE(same.verify(connection_proof{}, here));
}

TEST_CASE("a proof is good over IPv6, and for an IPv4 address in either of its forms") {
  connection_prover ours{"the secret"};
  auto v6_proof = ours.make(v6("fd00::1", 4000)), v4_proof = ours.make(v4("10.0.0.1", 4000));
  REQUIRE(v6_proof);
  REQUIRE(v4_proof);
  CHECK(ours.verify(*v6_proof, v6("fd00::1", 4000)));
  CHECK_FALSE(ours.verify(*v6_proof, v6("fd00::2", 4000)));
  CHECK(ours.verify(*v4_proof, v6("::ffff:10.0.0.1", 4000)));
}

TEST_CASE("there is no proof for what is not an internet address") {
  connection_prover ours{"the secret"};
  sockaddr_storage local{};
  local.ss_family = AF_UNIX;
  CHECK_FALSE(ours.make(local));
  CHECK_FALSE(ours.verify(connection_proof{}, local));
}

TEST_CASE("a flipped bit anywhere makes a proof worthless, and no two proofs are alike") {
  connection_prover ours{"the secret"};
  auto here = v4("10.0.0.1", 4000);
  auto proof = ours.make(here), again = ours.make(here);
  REQUIRE(proof);
  REQUIRE(again);
  CHECK(*proof != *again);
  for (std::size_t bit = 0; bit < proof_bytes * 8; ++bit) {
    auto flipped = *proof;
    flipped[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    CHECK_FALSE(ours.verify(flipped, here));
  }
}

TEST_CASE("a proof is remembered until as many others have come as there is room for") {
  auto numbered = [](unsigned char number) {
    connection_proof proof{};
    proof[0] = number;
    return proof;
  };
  nonce_memory memory{3};
  for (unsigned char i = 1; i <= 3; ++i) CHECK(memory.add(numbered(i)));
  for (unsigned char i = 1; i <= 3; ++i) CHECK_FALSE(memory.add(numbered(i)));
  CHECK(memory.add(numbered(4)));
  CHECK_FALSE(memory.add(numbered(2)));
  CHECK_FALSE(memory.add(numbered(4)));
  CHECK(memory.add(numbered(1)));
}

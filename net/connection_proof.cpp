#include "net/connection_proof.hpp"

#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

namespace dualpath::net {
namespace {

/// Keeps the key apart from whatever else is derived from the secret.
constexpr std::string_view label = "dualpath data plane connection\n";

/// An IPv6 address and a port, as on the wire; IPv4 as its mapped form, which is how a socket of both
/// families names it.
struct stream_address {
  std::array<unsigned char, 18> bytes{};
};

std::optional<stream_address> canonical(const sockaddr_storage& from) noexcept {
  constexpr std::size_t v6_bytes = 16, v4_at = 12;
  stream_address out;
  auto* to = out.bytes.data();
  if (from.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof v4);
    to[10] = to[11] = 0xff;
    std::memcpy(to + v4_at, &v4.sin_addr, sizeof v4.sin_addr);
    std::memcpy(to + v6_bytes, &v4.sin_port, sizeof v4.sin_port);
    return out;
  }
  if (from.ss_family != AF_INET6) return {};
  sockaddr_in6 v6;
  std::memcpy(&v6, &from, sizeof v6);
  std::memcpy(to, &v6.sin6_addr, v6_bytes);
  std::memcpy(to + v6_bytes, &v6.sin6_port, sizeof v6.sin6_port);
  return out;
}

bool hmac(std::string_view key, const unsigned char* text, std::size_t bytes, unsigned char* out) noexcept {
  unsigned int length = 0;
  return HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text, bytes, out, &length) != nullptr
         && length == digest_bytes;
}

} // namespace

connection_prover::connection_prover(std::string_view secret) {
  // A key that could not be derived is random: then nobody is let in, rather than everybody.
  if (!hmac(secret, reinterpret_cast<const unsigned char*>(label.data()), label.size(), key_.data()))
    RAND_bytes(key_.data(), static_cast<int>(key_.size()));
}

std::optional<connection_prover::digest> connection_prover::sign(const unsigned char* nonce,
                                                                 const sockaddr_storage& of) const noexcept {
  auto address = canonical(of);
  if (!address) return {};
  std::array<unsigned char, nonce_bytes + sizeof address->bytes> text;
  std::copy(address->bytes.begin(), address->bytes.end(), std::copy_n(nonce, nonce_bytes, text.begin()));
  digest out{};
  if (!hmac({reinterpret_cast<const char*>(key_.data()), key_.size()}, text.data(), text.size(), out.data()))
    return {};
  return out;
}

std::optional<connection_proof> connection_prover::make(const sockaddr_storage& to) const noexcept {
  connection_proof proof{};
  if (RAND_bytes(proof.data(), nonce_bytes) != 1) return {};
  auto signature = sign(proof.data(), to);
  if (!signature) return {};
  std::copy(signature->begin(), signature->end(), proof.begin() + nonce_bytes);
  return proof;
}

bool connection_prover::verify(const connection_proof& proof, const sockaddr_storage& at) const noexcept {
  auto wanted = sign(proof.data(), at);
  return wanted && CRYPTO_memcmp(proof.data() + nonce_bytes, wanted->data(), wanted->size()) == 0;
}

bool nonce_memory::add(const connection_proof& proof) noexcept {
  nonce added;
  std::copy_n(proof.begin(), added.size(), added.begin());
  auto end = nonces_.begin() + static_cast<std::ptrdiff_t>(held_);
  if (std::find(nonces_.begin(), end, added) != end) return false;
  nonces_[next_] = added;
  next_ = (next_ + 1) % nonces_.size();
  held_ = std::min(held_ + 1, nonces_.size());
  return true;
}

} // namespace dualpath::net

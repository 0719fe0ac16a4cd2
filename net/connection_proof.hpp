// What opens a connection: 48 bytes that only a holder of the cluster's secret can make, good for one
// listening address. A random nonce, and the HMAC-SHA256 of nonce and address under a key derived from the
// secret. Nothing here throws or allocates after construction, since UCX's own thread calls it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace dualpath::net {

inline constexpr std::size_t nonce_bytes = 16, digest_bytes = 32, proof_bytes = nonce_bytes + digest_bytes;

using connection_proof = std::array<unsigned char, proof_bytes>;

class connection_prover {
public:
  explicit connection_prover(std::string_view secret);

  /// For a connection to that IPv4 or IPv6 address and port. Nothing: another kind of address, or OpenSSL
  /// failed.
  std::optional<connection_proof> make(const sockaddr_storage& to) const noexcept;
  /// In time that does not depend on the bytes of the proof.
  bool verify(const connection_proof& proof, const sockaddr_storage& at) const noexcept;

private:
  using digest = std::array<unsigned char, digest_bytes>;

  std::optional<digest> sign(const unsigned char* nonce, const sockaddr_storage& of) const noexcept;

  digest key_{};
};

/// The nonces of the proofs accepted last, against those who send a proof again that they have seen. Only
/// holders of the secret get a nonce in, so that nobody else can push one out.
class nonce_memory {
public:
  explicit nonce_memory(std::size_t capacity) { nonces_.resize(capacity); }

  /// False: it was there already.
  bool add(const connection_proof& proof) noexcept;

private:
  using nonce = std::array<unsigned char, nonce_bytes>;

  std::vector<nonce> nonces_; ///< a ring
  std::size_t held_ = 0, next_ = 0;
};

} // namespace dualpath::net

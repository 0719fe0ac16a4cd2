// Who may speak on the control plane: whoever holds the cluster's secret. From it every process derives the
// same key and the same certificate, which both ends of a TLS connection demand of each other; the handshake
// is the challenge and the response. Nothing of the secret reaches a disk or the wire.
#pragma once

#include "core/result.hpp"

#include <string>

namespace dualpath::net {

/// 32 random bytes as hexadecimal digits.
core::result<std::string> make_cluster_secret();
/// The first line of a file that only its owner may read. Errors: invalid_argument, where others may, where
/// it is shorter than 16 characters, or cannot be read.
core::result<std::string> read_cluster_secret(const std::string& path);

/// Certificate and key as files in memory, gone with this object. Not thread-safe.
class tls_identity {
public:
  static core::result<tls_identity> derive(const std::string& secret);
  tls_identity(tls_identity&& other) noexcept;
  tls_identity& operator=(tls_identity&&) = delete;
  ~tls_identity();

  std::string certificate_path() const;
  std::string key_path() const;

private:
  tls_identity(int certificate, int key) : certificate_{certificate}, key_{key} {}
  int certificate_ = -1, key_ = -1; ///< file descriptors
};

} // namespace dualpath::net

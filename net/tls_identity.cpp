#include "net/tls_identity.hpp"

#include "net/tls_errors.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

namespace dualpath::net {
namespace {

constexpr std::size_t seed_bytes = 32, shortest_secret = 16;

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed_by<X509_free>>;

core::error failure(const char* doing) {
  return {core::errc::io, std::string{"cannot "} + doing + " for the control plane"};
}

/// Ed25519 signatures are a function of key and text, so that equal secrets give equal certificates.
key_ptr derive_key(const std::string& secret) {
  std::array<unsigned char, seed_bytes> seed{};
  auto text = "dualpath control plane\n" + secret;
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), seed.data(), &length, EVP_sha256(), nullptr) != 1) return nullptr;
  return key_ptr{EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size())};
}

certificate_ptr make_certificate(EVP_PKEY* key) {
  certificate_ptr made{X509_new()};
  auto* x = made.get();
  auto* name = X509_get_subject_name(x);
  auto text = reinterpret_cast<const unsigned char*>("dualpath");
  auto done = X509_set_version(x, 2) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(x), 1) == 1
              && ASN1_TIME_set_string(X509_getm_notBefore(x), "20200101000000Z") == 1
              && ASN1_TIME_set_string(X509_getm_notAfter(x), "99991231235959Z") == 1
              && X509_set_pubkey(x, key) == 1
              && X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1
              && X509_set_issuer_name(x, name) == 1 && X509_sign(x, key, nullptr) > 0;
  return done ? std::move(made) : nullptr;
}

/// A file in memory that holds what `write` puts there; -1 where that fails.
template <class Write>
int memory_file(const char* name, Write write) {
  int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return -1;
  std::unique_ptr<std::FILE, freed_by<std::fclose>> out{::fdopen(::dup(fd), "w")};
  if (out && write(out.get()) == 1 && std::fflush(out.get()) == 0) return fd;
  ::close(fd);
  return -1;
}

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

} // namespace

core::result<std::string> make_cluster_secret() {
  std::array<unsigned char, seed_bytes> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) return failure("draw a secret");
  std::string text;
  for (auto byte : random) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

core::result<std::string> read_cluster_secret(const std::string& path) {
  auto invalid = [&](const std::string& why) {
    return core::error{core::errc::invalid_argument, "the secret file '" + path + "' " + why};
  };
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return invalid(std::string{"cannot be read: "} + std::strerror(errno));
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return invalid("can be read by others than its owner; chmod 600 it");
  std::ifstream file{path};
  std::string secret;
  if (!std::getline(file, secret)) return invalid("is empty or cannot be read");
  if (secret.size() < shortest_secret)
    return invalid("holds fewer than " + std::to_string(shortest_secret)
                   + " characters; make one with: openssl rand -hex 32 > FILE");
  return secret;
}

core::result<tls_identity> tls_identity::derive(const std::string& secret) {
  if (!tls_errors_kept_apart()) return failure("find the TLS library");
  auto key = derive_key(secret);
  if (!key) return failure("derive a key");
  auto certificate = make_certificate(key.get());
  if (!certificate) return failure("make a certificate");
  int certificate_file = memory_file("dualpath-certificate",
                                     [&](std::FILE* out) { return PEM_write_X509(out, certificate.get()); });
  if (certificate_file < 0) return failure("keep a certificate");
  int key_file = memory_file("dualpath-key", [&](std::FILE* out) {
    return PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  if (key_file < 0) {
    ::close(certificate_file);
    return failure("keep a key");
  }
  return tls_identity{certificate_file, key_file};
}

tls_identity::tls_identity(tls_identity&& other) noexcept
    : certificate_{std::exchange(other.certificate_, -1)}, key_{std::exchange(other.key_, -1)} {}

tls_identity::~tls_identity() {
  for (int fd : {certificate_, key_})
    if (fd >= 0) ::close(fd);
}

std::string tls_identity::certificate_path() const { return path_of(certificate_); }
std::string tls_identity::key_path() const { return path_of(key_); }

} // namespace dualpath::net

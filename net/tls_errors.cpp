// OpenSSL keeps errors in a queue per thread, and SSL_get_error() takes whatever lies in it for its own. CAF
// serves all connections of a process on one thread without emptying the queue, so that one peer that dies,
// or sends garbage, would take every other connection down with it. These wrappers stand before the
// library's functions of the same name and start each of them with an empty queue.
#include "net/tls_errors.hpp"

#include "net/library_calls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

using dualpath::net::next_function;

extern "C" {

int SSL_read(SSL* session, void* buffer, int bytes) {
  static const auto library = next_function<int (*)(SSL*, void*, int)>("SSL_read");
  ERR_clear_error();
  return library(session, buffer, bytes);
}

int SSL_write(SSL* session, const void* buffer, int bytes) {
  static const auto library = next_function<int (*)(SSL*, const void*, int)>("SSL_write");
  ERR_clear_error();
  return library(session, buffer, bytes);
}

int SSL_accept(SSL* session) {
  static const auto library = next_function<int (*)(SSL*)>("SSL_accept");
  ERR_clear_error();
  return library(session);
}

int SSL_connect(SSL* session) {
  static const auto library = next_function<int (*)(SSL*)>("SSL_connect");
  ERR_clear_error();
  return library(session);
}

} // extern "C"

namespace dualpath::net {

bool tls_errors_kept_apart() { return next_function<int (*)(SSL*)>("SSL_accept") != nullptr; }

} // namespace dualpath::net

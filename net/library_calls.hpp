// For functions of the C library that an executable defines in front of the library's: the library's own, and
// who calls.
#pragma once

#include <dlfcn.h>

#include <cstdint>

namespace dualpath::net {

/// The function of that name that comes after ours. Threads: any.
template <class Function>
Function next_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

/// Whether calls to that name, from whatever library, reach `ours`: they do where the executable exports it.
template <class Function>
bool comes_first(const char* name, Function ours) {
  return ::dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void*>(ours);
}

struct code_range {
  std::uintptr_t first = 0, end = 0;

  bool holds(const void* address) const {
    auto at = reinterpret_cast<std::uintptr_t>(address);
    return first <= at && at < end;
  }
};

/// The code of the loaded library that has a symbol; empty where none has.
code_range code_around(const char* symbol);

/// That of UCX which calls the C library's functions for sockets. Empty where UCX is linked statically.
code_range ucx_socket_code();

/// A socket option that is a number; 0 where the socket has none.
int socket_option(int fd, int level, int name);

/// A stream socket of IPv4 or IPv6.
bool is_tcp(int fd);

} // namespace dualpath::net

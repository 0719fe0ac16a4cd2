#include "net/library_calls.hpp"

#include <link.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace dualpath::net {
namespace {

/// The segment of a loaded library that the address is in.
code_range segment_of(const void* address) {
  struct search {
    const void* address;
    code_range found;
  } looking{address, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& wanted = *static_cast<search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          auto& segment = object->dlpi_phdr[i];
          auto first = object->dlpi_addr + segment.p_vaddr;
          code_range range{first, first + segment.p_memsz};
          if (segment.p_type != PT_LOAD || !range.holds(wanted.address)) continue;
          wanted.found = range;
          return 1;
        }
        return 0;
      },
      &looking);
  return looking.found;
}

} // namespace

code_range code_around(const char* symbol) {
  auto* found = ::dlsym(RTLD_DEFAULT, symbol);
  return found == nullptr ? code_range{} : segment_of(found);
}

code_range ucx_socket_code() { return code_around("ucs_socket_connect"); }

int socket_option(int fd, int level, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(fd, level, name, &value, &bytes) == 0 ? value : 0;
}

bool is_tcp(int fd) {
  auto family = socket_option(fd, SOL_SOCKET, SO_DOMAIN);
  return (family == AF_INET || family == AF_INET6)
         && socket_option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
}

} // namespace dualpath::net

#include "net/bootstrap.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pmix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

namespace dualpath::net {
namespace {

constexpr const char* contact_key = "dualpath.head";
constexpr const char* presence_key = "dualpath.here"; ///< of every rank

core::error failure(const std::string& doing, pmix_status_t status) {
  return {core::errc::io, "PMIx cannot " + doing + ": " + PMIx_Error_string(status)};
}

pmix_proc_t proc_of(const std::string& space, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_PROC_CONSTRUCT(&proc);
  std::strncpy(proc.nspace, space.c_str(), PMIX_MAX_NSLEN);
  proc.rank = rank;
  return proc;
}

core::result<std::uint32_t> job_number(const std::string& space, const char* key) {
  auto all = proc_of(space, PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  if (auto status = PMIx_Get(&all, key, nullptr, 0, &value); status != PMIX_SUCCESS)
    return failure(std::string{"tell "} + key, status);
  auto number = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return number;
}

/// One a line: none of them has a line break.
std::string to_text(const head_contact& contact) {
  auto why = contact.failure;
  for (auto& c : why)
    if (c == '\n') c = ' ';
  return contact.host + "\n" + std::to_string(contact.port) + "\n" + contact.secret + "\n" + why + "\n";
}

core::result<head_contact> from_text(const std::string& text) {
  std::istringstream lines{text};
  head_contact contact;
  std::string port;
  if (!std::getline(lines, contact.host) || !std::getline(lines, port) || !std::getline(lines, contact.secret)
      || !std::getline(lines, contact.failure))
    return core::error{core::errc::io, "rank 0 told through PMIx something else than where it listens"};
  std::from_chars(port.data(), port.data() + port.size(), contact.port);
  return contact;
}

core::result<void> publish(const char* key, const std::string& text) {
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_STRING;
  auto copy = text;
  value.data.string = copy.data();
  if (auto status = PMIx_Put(PMIX_GLOBAL, key, &value); status != PMIX_SUCCESS)
    return failure(std::string{"publish "} + key, status);
  return {};
}

/// PMIx counts in whole seconds.
int whole_seconds(core::duration d) {
  return static_cast<int>(std::chrono::ceil<std::chrono::seconds>(d).count());
}

core::result<void> meet(const std::string& space, core::duration limit) {
  if (auto status = PMIx_Commit(); status != PMIX_SUCCESS) return failure("commit", status);
  auto all = proc_of(space, PMIX_RANK_WILDCARD);
  std::array<pmix_info_t, 2> wishes;
  for (auto& wish : wishes) PMIX_INFO_CONSTRUCT(&wish);
  bool yes = true;
  auto seconds = whole_seconds(limit);
  PMIX_INFO_LOAD(&wishes[0], PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  PMIX_INFO_LOAD(&wishes[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
  auto status = PMIx_Fence(&all, 1, wishes.data(), wishes.size());
  for (auto& wish : wishes) PMIX_INFO_DESTRUCT(&wish);
  if (status == PMIX_ERR_TIMEOUT)
    return core::error{core::errc::timed_out, "not all ranks of the job started in time"};
  if (status != PMIX_SUCCESS) return failure("meet the other ranks", status);
  return {};
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

std::uint32_t number(const char* name, std::uint32_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  std::uint32_t value = fallback;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

} // namespace

launch_info detect_launch() {
  launch_info launch;
  if (!is_set("PMIX_NAMESPACE")) return launch;
  launch.rank = number("PMIX_RANK", 0);
  if (is_set("OMPI_COMM_WORLD_SIZE")) {
    launch.launcher = "mpirun";
    launch.size = number("OMPI_COMM_WORLD_SIZE", 1);
    launch.survives_a_death = number("OMPI_MCA_orte_enable_recovery", 0) != 0;
  } else if (is_set("SLURM_STEP_NUM_TASKS")) {
    launch.launcher = "srun";
    launch.size = number("SLURM_STEP_NUM_TASKS", 1);
  }
  return launch;
}

core::result<pmix_job> pmix_job::open() {
  pmix_proc_t me;
  PMIX_PROC_CONSTRUCT(&me);
  if (auto status = PMIx_Init(&me, nullptr, 0); status != PMIX_SUCCESS)
    return core::error{core::errc::unsupported,
                       std::string{"this process was started by a launcher without PMIx ("}
                           + PMIx_Error_string(status) + "); use mpirun, or srun --mpi=pmix"};
  pmix_job job;
  job.open_ = true;
  job.space_ = me.nspace;
  job.rank_ = me.rank;
  auto size = job_number(job.space_, PMIX_JOB_SIZE);
  if (!size) return size.error();
  job.size_ = *size;
  // Not every launcher tells how many of the ranks are here: then they may be anywhere.
  auto local = job_number(job.space_, PMIX_LOCAL_SIZE);
  job.local_size_ = local ? *local : 0;
  return job;
}

pmix_job::pmix_job(pmix_job&& other) noexcept
    : space_{std::move(other.space_)},
      rank_{other.rank_},
      size_{other.size_},
      local_size_{other.local_size_},
      open_{std::exchange(other.open_, false)} {}

pmix_job::~pmix_job() {
  if (open_) PMIx_Finalize(nullptr, 0);
}

std::vector<std::uint32_t> pmix_job::missing_ranks() const {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    auto proc = proc_of(space_, rank);
    pmix_info_t limit;
    PMIX_INFO_CONSTRUCT(&limit);
    int seconds = 1;
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
    pmix_value_t* value = nullptr;
    auto status = PMIx_Get(&proc, presence_key, &limit, 1, &value);
    PMIX_INFO_DESTRUCT(&limit);
    if (status == PMIX_SUCCESS)
      PMIX_VALUE_RELEASE(value);
    else
      missing.push_back(rank);
  }
  return missing;
}

core::result<head_contact> pmix_job::exchange(const head_contact& own, core::duration limit) {
  if (rank_ == 0)
    if (auto published = publish(contact_key, to_text(own)); !published) return published.error();
  if (auto published = publish(presence_key, "here"); !published) return published.error();
  if (auto met = meet(space_, limit); !met) return met.error();
  auto head = proc_of(space_, 0);
  pmix_value_t* value = nullptr;
  if (auto status = PMIx_Get(&head, contact_key, nullptr, 0, &value); status != PMIX_SUCCESS)
    return failure("tell where rank 0 listens", status);
  std::string text = value->type == PMIX_STRING ? value->data.string : "";
  PMIX_VALUE_RELEASE(value);
  if (auto status = PMIx_Finalize(nullptr, 0); status != PMIX_SUCCESS) return failure("finalise", status);
  open_ = false;
  return from_text(text);
}

core::result<endpoint_name> parse_endpoint(const std::string& text, bool any_port) {
  auto colon = text.rfind(':');
  endpoint_name name;
  if (colon != std::string::npos && colon > 0) {
    name.host = text.substr(0, colon);
    auto* end = text.data() + text.size();
    auto [stop, bad] = std::from_chars(text.data() + colon + 1, end, name.port);
    if (bad == std::errc{} && stop == end && (name.port != 0 || any_port)) return name;
  }
  return core::error{core::errc::invalid_argument, "'" + text + "' is not HOST:PORT, such as node1:7070"};
}

namespace {

struct freed_addresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using address_list = std::unique_ptr<addrinfo, freed_addresses>;

address_list resolve_ipv4(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return nullptr;
  return address_list{list};
}

in_addr ipv4_of(const sockaddr& address) { return reinterpret_cast<const sockaddr_in&>(address).sin_addr; }

} // namespace

std::string device_of(const std::string& host) {
  auto wanted = resolve_ipv4(host, 0);
  if (!wanted) return {};
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return {};
  std::string name;
  for (auto* each = interfaces; each != nullptr && name.empty(); each = each->ifa_next)
    if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET
        && ipv4_of(*each->ifa_addr).s_addr == ipv4_of(*wanted->ai_addr).s_addr)
      name = each->ifa_name;
  ::freeifaddrs(interfaces);
  return name;
}

std::string address_towards(const std::string& host, std::uint16_t port) {
  auto there = resolve_ipv4(host, port);
  int fd = there ? ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
  if (fd < 0) return {};
  // Of a datagram socket, this only looks the way up.
  sockaddr own{};
  socklen_t length = sizeof own;
  char text[INET_ADDRSTRLEN] = {};
  if (::connect(fd, there->ai_addr, there->ai_addrlen) == 0 && ::getsockname(fd, &own, &length) == 0) {
    auto address = ipv4_of(own);
    ::inet_ntop(AF_INET, &address, text, sizeof text);
  }
  ::close(fd);
  return text;
}

std::string machine_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

} // namespace dualpath::net

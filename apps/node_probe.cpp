#include "apps/node_facts.hpp"
#include "apps/store_probe.hpp"
#include "core/page_memory.hpp"
#include "net/verbs_copy.hpp"
#include "net/verbs_devices.hpp"
#include "storage/uring.hpp"

#include <charconv>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace dualpath::apps {

namespace {

namespace fs = std::filesystem;

/// The one line of a file of /proc or /sys; "" where it is missing.
std::string line_of(const fs::path& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  auto line = line_of(path);
  std::uint64_t value = 0;
  auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (failure != std::errc{}) return std::nullopt;
  return value;
}

/// Of the file's words, the one in brackets: "always [madvise] never".
std::string chosen_in(const fs::path& path) {
  auto line = line_of(path);
  auto open = line.find('['), close = line.find(']');
  return open == std::string::npos || close < open ? "" : line.substr(open + 1, close - open - 1);
}

/// What follows `option`= among the options of the file system at `folder`.
std::string mount_option(std::string_view folder, std::string_view option) {
  std::ifstream mounts{"/proc/self/mounts"};
  std::string value;
  for (std::string device, at, type, options, rest;
       mounts >> device >> at >> type >> options && std::getline(mounts, rest);) {
    if (at != folder) continue;
    value.clear(); // what is mounted last covers the others
    std::istringstream each{options};
    for (std::string one; std::getline(each, one, ',');)
      if (one.starts_with(option) && one[option.size()] == '=') value = one.substr(option.size() + 1);
  }
  return value;
}

std::uint64_t limit_of(rlim_t limit) { return limit == RLIM_INFINITY ? no_limit : limit; }

bool has_environment(const char* name) { return std::getenv(name) != nullptr; }

bool has_capability(unsigned bit) {
  std::ifstream file{"/proc/self/status"};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("CapEff:")) return (std::strtoull(line.c_str() + 7, nullptr, 16) >> bit & 1) != 0;
  return false;
}

/// A library that is only asked whether it is there: the program runs without it.
class optional_library {
public:
  explicit optional_library(const char* name) : handle_{::dlopen(name, RTLD_LAZY | RTLD_LOCAL)} {}
  ~optional_library() {
    if (handle_) ::dlclose(handle_);
  }
  optional_library(const optional_library&) = delete;
  optional_library& operator=(const optional_library&) = delete;
  template <class Function>
  Function* find(const char* name) const {
    return handle_ ? reinterpret_cast<Function*>(::dlsym(handle_, name)) : nullptr;
  }

private:
  void* handle_;
};

void probe_limits(node_facts& facts) {
  constexpr unsigned cap_ipc_lock = 14, cap_sys_ptrace = 19;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) facts.memory_lock_bytes = limit_of(limit.rlim_cur);
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.open_files = limit_of(limit.rlim_cur);
    facts.most_open_files = limit_of(limit.rlim_max);
  }
  facts.may_lock_memory = has_capability(cap_ipc_lock);
  facts.may_trace = has_capability(cap_sys_ptrace);
  facts.ptrace_scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
  std::error_code failed;
  if (auto space = fs::space("/dev/shm", failed); !failed && ::access("/dev/shm", W_OK) == 0)
    facts.shared_memory_bytes = space.available;
}

void probe_kernel(node_facts& facts) {
  utsname name{};
  if (::uname(&name) == 0) facts.kernel = name.release;
  facts.io_uring_disabled = number_in("/proc/sys/kernel/io_uring_disabled");
  if (auto ring = storage::uring::create(8); !ring) facts.io_uring_error = ring.error().text;
  facts.huge_pages_free = core::free_huge_pages();
  facts.transparent_huge_pages = chosen_in("/sys/kernel/mm/transparent_hugepage/enabled");
  // The kernel names the option where it is not `never`.
  facts.shared_huge_pages = mount_option("/dev/shm", "huge");
  if (facts.shared_huge_pages.empty()) facts.shared_huge_pages = "never";
  facts.clock_source = line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  facts.governor = line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

void probe_network(node_facts& facts) {
  if (auto ports = net::list_verbs_ports()) {
    facts.rdma_ports = std::move(*ports);
  } else {
    facts.rdma_error = ports.error().text;
  }
  if (auto copies = net::open_verbs_copy({})) {
    facts.copies_device = (*copies)->device();
  } else {
    facts.copies_error = copies.error().text;
  }
  facts.peer_memory =
      fs::exists("/sys/module/nvidia_peermem") || fs::exists("/sys/kernel/mm/memory_peers/nv_mem");
  facts.ucx_version = net::ucx_version();
  facts.ucx_transports = net::list_ucx_transports();
  facts.most_receive_buffer_bytes = number_in("/proc/sys/net/core/rmem_max");
}

/// "OpenPMIx 4.2.2 (PMIx Standard: ...)" is more than anybody needs.
std::string first_words(const std::string& text) {
  auto end = text.find_first_of(",(");
  auto words = text.substr(0, end);
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return words;
}

void probe_launcher(node_facts& facts) {
  optional_library pmix{"libpmix.so.2"};
  if (auto* version = pmix.find<const char*()>("PMIx_Get_version"))
    facts.pmix_version = first_words(version());
  facts.in_pmix = has_environment("PMIX_RANK") && has_environment("PMIX_NAMESPACE");
  facts.in_slurm_step = has_environment("SLURM_STEP_ID");
  facts.in_open_mpi = has_environment("OMPI_COMM_WORLD_RANK");
}

/// By the driver, so that a build without CUDA sees them too.
std::optional<int> count_gpus() {
  optional_library driver{"libcuda.so.1"};
  auto* init = driver.find<int(unsigned)>("cuInit");
  auto* count_devices = driver.find<int(int*)>("cuDeviceGetCount");
  int count = 0;
  if (!init || !count_devices || init(0) != 0 || count_devices(&count) != 0) return std::nullopt;
  return count;
}

void probe_compute(node_facts& facts) {
#ifdef DUALPATH_HAVE_CUDA
  facts.built_with_cuda = true;
#endif
  facts.gpus = count_gpus();
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
    facts.vector_unit = "AVX-512";
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    facts.vector_unit = "AVX2";
#elif defined(__aarch64__)
  facts.vector_unit = "NEON";
#endif
}

} // namespace

node_facts probe_node(const probe_options& options) {
  node_facts facts;
  probe_limits(facts);
  probe_kernel(facts);
  probe_network(facts);
  probe_launcher(facts);
  probe_compute(facts);
  if (!options.store.empty()) facts.store = probe_store(options.store);
  return facts;
}

} // namespace dualpath::apps

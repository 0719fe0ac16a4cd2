#include "apps/node_checks.hpp"

#include "core/units.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <set>

namespace dualpath::apps {

namespace {

using enum check_status;

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t least_locked_bytes = gib, enough_shared_bytes = gib, enough_free_bytes = gib;
constexpr std::uint64_t least_open_files = 1024, enough_open_files = 8192;

std::string bytes_text(std::uint64_t bytes) {
  return bytes == no_limit ? "unlimited" : core::format_bytes(bytes);
}

/// A check whose outcome is told by the one of `outcomes` that holds first.
struct outcome {
  bool holds;
  check_status status;
  std::string found, fix;
};
node_check first_of(std::string name, std::string needed_for, std::initializer_list<outcome> outcomes) {
  for (const auto& each : outcomes)
    if (each.holds)
      return {std::move(name), each.status, each.found, std::move(needed_for),
              each.status == ok ? "" : each.fix};
  return {std::move(name), ok, "", std::move(needed_for), ""};
}

node_check check_io_uring(const node_facts& f) {
  auto by_sysctl = f.io_uring_disabled.value_or(0) > 0;
  return first_of(
      "io_uring", "block stores in folders (--store DIR)",
      {{f.io_uring_error.empty(), ok, "works on kernel " + f.kernel, ""},
       {by_sysctl, fail,
        "disabled: kernel.io_uring_disabled is " + std::to_string(f.io_uring_disabled.value_or(0)),
        "sysctl -w kernel.io_uring_disabled=0; in a container, on its host"},
       {true, fail, f.io_uring_error,
        "use kernel 5.15 or newer; in a container, let its seccomp profile allow the io_uring calls"}});
}

node_check check_store(const node_facts& f) {
  auto store = f.store.value_or(store_facts{});
  auto where = store.file_system + ", " + core::format_bytes(store.free_bytes) + " free";
  return first_of(
      "block store", "keeping KV-cache between rounds and runs",
      {{!f.store, ok, "none named (--store)", ""},
       {!store.error.empty(), fail, store.path + ": " + store.error,
        "make the folder and give this user the right to write to it, or name another"},
       {!store.direct_io, warn, where + ", no O_DIRECT",
        "use a file system with direct I/O (ext4, xfs); over the page cache, reads take memory and CPU"},
       {store.free_bytes < enough_free_bytes, warn, where,
        "free some space: a full store serves without writing"},
       {true, ok, where + ", O_DIRECT", ""}});
}

node_check check_memory_lock(const node_facts& f) {
  auto limit = f.memory_lock_bytes.value_or(no_limit);
  auto text = bytes_text(limit);
  const std::string fix = "ulimit -l unlimited: '* - memlock unlimited' in /etc/security/limits.conf, or "
                          "LimitMEMLOCK=infinity of the service that starts it (slurmd too)";
  return first_of("locked memory", "registering buffer pools with RDMA devices",
                  {{f.may_lock_memory, ok, text + ", not applied to this user (CAP_IPC_LOCK)", ""},
                   {limit == no_limit, ok, text, ""},
                   {f.rdma_ports.empty(), ok, text + "; no RDMA device needs more", ""},
                   {limit < least_locked_bytes, fail, text, fix},
                   {true, warn, text + "; buffer pools larger than that cannot be registered", fix}});
}

node_check check_open_files(const node_facts& f) {
  auto now = f.open_files.value_or(no_limit), most = f.most_open_files.value_or(now);
  auto text = now == no_limit ? "unlimited" : std::to_string(now);
  auto fix =
      now < most
          ? "ulimit -n " + (most == no_limit ? "65536" : std::to_string(std::min<std::uint64_t>(most, 65536)))
          : std::string{"'* - nofile 65536' in /etc/security/limits.conf, or LimitNOFILE= of the service"};
  return first_of("open files", "connections to the engines of other nodes, and blocks in flight",
                  {{now < least_open_files, fail, text, fix},
                   {now < enough_open_files, warn, text + "; a large cluster needs more", fix},
                   {true, ok, text, ""}});
}

node_check check_shared_memory(const node_facts& f) {
  auto size = f.shared_memory_bytes.value_or(0);
  return first_of(
      "shared memory", "KV transfers between the engines of a node (UCX posix), and their pools",
      {{!f.shared_memory_bytes, fail, "/dev/shm is missing or cannot be written",
        "mount -t tmpfs -o size=50% tmpfs /dev/shm"},
       {size < enough_shared_bytes, warn, core::format_bytes(size) + " free in /dev/shm",
        "mount -o remount,size=50% /dev/shm; in a container, docker run --shm-size=16g or --ipc=host"},
       {true, ok, core::format_bytes(size) + " free in /dev/shm", ""}});
}

std::string describe(const core::port_report& port) {
  return port.device + ":" + std::to_string(port.port) + " "
         + (port.link == core::link_kind::ethernet ? "Ethernet" : "InfiniBand") + " "
         + (port.active ? "active" : "down") + ", MTU " + std::to_string(port.active_mtu_bytes) + " of "
         + std::to_string(port.most_mtu_bytes);
}

node_check check_rdma(const node_facts& f) {
  std::string found;
  for (const auto& port : f.rdma_ports) found += (found.empty() ? "" : "; ") + describe(port);
  auto active = std::count_if(f.rdma_ports.begin(), f.rdma_ports.end(), [](auto& p) { return p.active; });
  auto all_active = active == std::ssize(f.rdma_ports);
  auto full_mtu = std::all_of(f.rdma_ports.begin(), f.rdma_ports.end(),
                              [](auto& p) { return !p.active || p.active_mtu_bytes >= p.most_mtu_bytes; });
  return first_of(
      "RDMA devices", "one-sided KV transfers between nodes at the speed of the NIC",
      {{!f.rdma_error.empty(), fail, f.rdma_error, "give this user access to /dev/infiniband"},
       {f.rdma_ports.empty(), warn, "none; transfers go over TCP and shared memory",
        "load the NIC's driver (lsmod | grep ib_uverbs) and install ibverbs-providers"},
       {active == 0, fail, found, "check cables, the switch and the subnet manager: ibstat, rdma link"},
       {!all_active, warn, found, "check cables and the switch of the port that is down: ibstat, rdma link"},
       {!full_mtu, warn, found,
        "raise the MTU: of the subnet on InfiniBand, ip link set DEV mtu 4500 or more on Ethernet"},
       {true, ok, found, ""}});
}

node_check check_copies(const node_facts& f) {
  auto beside_gpus = f.gpus.value_or(0) > 0;
  return first_of(
      "local copies", "host and device copies under the NIC's traffic classes (--copies auto)",
      {{f.copies_device.empty() && f.rdma_ports.empty(), ok, "by the compute device: " + f.copies_error, ""},
       {f.copies_device.empty(), warn, "by the compute device: " + f.copies_error,
        "let this user open /dev/infiniband and lock memory (ulimit -l unlimited)"},
       {beside_gpus && !f.peer_memory, warn,
        "by the compute device: " + f.copies_device + " does not reach the memory of GPUs",
        "modprobe nvidia-peermem"},
       {true, ok, "verbs on " + f.copies_device, ""}});
}

node_check check_ucx(const node_facts& f) {
  std::set<std::string> names;
  for (const auto& each : f.ucx_transports) names.insert(each.name);
  std::string list;
  for (const auto& name : names) list += " " + name;
  auto far = [](const std::string& name) {
    return name == "tcp" || name.starts_with("rc") || name.starts_with("dc") || name.starts_with("ud");
  };
  auto reaches = std::any_of(names.begin(), names.end(), far);
  auto fast = std::any_of(names.begin(), names.end(), [&](auto& n) { return far(n) && n != "tcp"; });
  return first_of(
      "UCX", "every byte of KV-cache between engines",
      {{!reaches, fail, f.ucx_version + " without a transport to other nodes:" + list,
        "bring a network interface up, and do not exclude tcp in UCX_TLS or UCX_NET_DEVICES"},
       {!f.rdma_ports.empty() && !fast, warn, f.ucx_version + " does not use the RDMA devices:" + list,
        "install libucx0 with InfiniBand support and give this user access to /dev/infiniband"},
       {true, ok, f.ucx_version + ":" + list, ""}});
}

node_check check_socket_buffers(const node_facts& f) {
  auto most = f.most_receive_buffer_bytes.value_or(net::tcp_receive_buffer_bytes);
  auto text = core::format_bytes(most) + " to receive";
  return first_of(
      "socket buffers", "KV transfers over TCP at full speed",
      {{most < net::tcp_receive_buffer_bytes, warn, text + "; bursts overrun it and come again later",
        "sysctl -w net.core.rmem_max=" + std::to_string(net::tcp_receive_buffer_bytes)
            + ", and in /etc/sysctl.d"},
       {true, ok, text, ""}});
}

node_check check_ptrace(const node_facts& f) {
  auto scope = f.ptrace_scope.value_or(0);
  auto text =
      f.ptrace_scope ? "kernel.yama.ptrace_scope is " + std::to_string(scope) : std::string{"not restricted"};
  return first_of(
      "process memory", "one copy instead of two between the processes of a node (UCX cma)",
      {{scope == 0, ok, text, ""},
       {f.may_trace && scope < 3, ok, text + ", not applied to this user (CAP_SYS_PTRACE)", ""},
       {true, warn, text, "sysctl -w kernel.yama.ptrace_scope=0; in a container, --cap-add=SYS_PTRACE"}});
}

node_check check_pmix(const node_facts& f) {
  auto launcher = f.in_slurm_step ? "srun" : f.in_open_mpi ? "mpirun" : "no launcher";
  return first_of("PMIx", "starting over many nodes by srun or mpirun",
                  {{f.in_slurm_step && !f.in_pmix, fail, "started by srun without PMIx", "srun --mpi=pmix"},
                   {f.pmix_version.empty(), warn, "no library", "apt-get install libpmix2"},
                   {true, ok, f.pmix_version + ", started by " + launcher, ""}});
}

node_check check_gpu(const node_facts& f) {
  auto count = f.gpus.value_or(0);
  auto devices = std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
  return first_of("GPU", "models at the speed of a GPU; without, the CPU computes",
                  {{f.built_with_cuda && count == 0, warn, f.gpus ? "none visible" : "no driver",
                    "install the NVIDIA driver, and check CUDA_VISIBLE_DEVICES; in a container, --gpus all"},
                   {!f.built_with_cuda && count > 0, warn, devices + ", but built without CUDA",
                    "install nvidia-cuda-toolkit and build again"},
                   {!f.built_with_cuda, ok, "none; built without CUDA", ""},
                   {true, ok, devices, ""}});
}

node_check check_huge_pages(const node_facts& f) {
  auto free = f.huge_pages_free.value_or(0);
  auto transparent = f.transparent_huge_pages == "always" || f.transparent_huge_pages == "madvise";
  auto text = std::to_string(free) + " reserved and free, transparent ones: "
              + (f.transparent_huge_pages.empty() ? "not known" : f.transparent_huge_pages);
  return first_of("huge pages", "fewer page-table walks over large buffer pools",
                  {{free > 0 || transparent, ok, text, ""},
                   {true, warn, text, "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"}});
}

// Buffer pools that processes of one machine share are filled by UCX before anyone could advise on them.
node_check check_shared_pages(const node_facts& f) {
  auto huge = f.shared_huge_pages == "always" || f.shared_huge_pages == "within_size";
  auto text = "in /dev/shm: " + f.shared_huge_pages;
  return first_of("shared huge pages",
                  "one disk operation a block, and fewer page-table walks, over shared pools",
                  {{huge, ok, text, ""}, {true, warn, text, "mount -o remount,huge=within_size /dev/shm"}});
}

node_check check_cpu(const node_facts& f) {
  auto text = (f.vector_unit.empty() ? "no vector unit in use" : f.vector_unit)
              + (f.governor.empty() ? "" : ", governor " + f.governor);
  return first_of(
      "CPU", "computing models on the CPU, checksums, and wake-ups within microseconds",
      {{f.vector_unit.empty(), warn, text, "use a CPU with AVX2; in a virtual machine, -cpu host"},
       {f.governor == "powersave" || f.governor == "conservative", warn, text,
        "cpupower frequency-set -g performance"},
       {true, ok, text, ""}});
}

node_check check_clock(const node_facts& f) {
  constexpr const char* slow[] = {"hpet", "acpi_pm", "jiffies", "pit", "refined-jiffies"};
  auto is_slow = std::find(std::begin(slow), std::end(slow), f.clock_source) != std::end(slow);
  return first_of("clock source", "reading the time without a system call",
                  {{is_slow, warn, f.clock_source,
                    "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource, or boot "
                    "with tsc=reliable"},
                   {true, ok, f.clock_source.empty() ? "not known" : f.clock_source, ""}});
}

} // namespace

std::vector<node_check> judge_node(const node_facts& facts) {
  return {check_io_uring(facts),   check_store(facts),         check_memory_lock(facts),
          check_open_files(facts), check_shared_memory(facts), check_rdma(facts),
          check_copies(facts),     check_ucx(facts),           check_socket_buffers(facts),
          check_ptrace(facts),     check_pmix(facts),          check_gpu(facts),
          check_huge_pages(facts), check_shared_pages(facts),  check_cpu(facts),
          check_clock(facts)};
}

bool is_fit(std::span<const node_check> checks) {
  return std::none_of(checks.begin(), checks.end(), [](auto& check) { return check.status == fail; });
}

std::string format_checks(std::span<const node_check> checks) {
  std::size_t width = 0;
  for (const auto& check : checks) width = std::max(width, check.name.size());
  std::string text;
  for (const auto& check : checks) {
    std::string status{to_string(check.status)};
    auto indent = std::string(width + 8, ' ');
    text += status + std::string(6 - status.size(), ' ') + check.name
            + std::string(width + 2 - check.name.size(), ' ') + check.found + "\n";
    if (check.status == ok) continue;
    text += indent + "for: " + check.needed_for + "\n" + indent + "fix: " + check.fix + "\n";
  }
  auto count = [&](check_status status) {
    return std::to_string(
        std::count_if(checks.begin(), checks.end(), [&](auto& c) { return c.status == status; }));
  };
  return text + count(ok) + " ok, " + count(warn) + " to improve, " + count(fail) + " missing\n";
}

std::string checks_json(std::span<const node_check> checks) {
  using nlohmann::ordered_json;
  ordered_json report{{"ok", is_fit(checks)}, {"checks", ordered_json::array()}};
  for (const auto& check : checks)
    report["checks"].push_back({{"name", check.name},
                                {"status", to_string(check.status)},
                                {"found", check.found},
                                {"needed_for", check.needed_for},
                                {"fix", check.fix}});
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dualpath::apps

#include "apps/node_checks.hpp"
#include "apps/store_probe.hpp"
#include "apps/temporary_folder.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

core::port_report port(bool active, unsigned mtu_bytes = 4096) {
  core::port_report p;
  p.device = "mlx5_0";
  p.link = core::link_kind::infiniband;
  p.active = active;
  p.active_mtu_bytes = mtu_bytes;
  p.most_mtu_bytes = 4096;
  return p;
}

/// A machine that lacks nothing.
node_facts good_node() {
  node_facts f;
  f.kernel = "6.1";
  f.io_uring_disabled = 0;
  f.store = store_facts{"/mnt/kv", "", true, "xfs", std::uint64_t{1} << 40};
  f.memory_lock_bytes = no_limit;
  f.open_files = f.most_open_files = 65536;
  f.shared_memory_bytes = std::uint64_t{64} << 30;
  f.rdma_ports = {port(true)};
  f.copies_device = "mlx5_0";
  f.peer_memory = true;
  f.ucx_version = "1.13.1";
  f.ucx_transports = {{"rc_mlx5", "mlx5_0:1"}, {"tcp", "eth0"}, {"posix", "memory"}};
  f.most_receive_buffer_bytes = 4 << 20;
  f.ptrace_scope = 0;
  f.pmix_version = "OpenPMIx 4.2.2";
  f.built_with_cuda = true;
  f.gpus = 8;
  f.huge_pages_free = 0;
  f.transparent_huge_pages = "madvise";
  f.shared_huge_pages = "within_size";
  f.vector_unit = "AVX-512";
  f.governor = "performance";
  f.clock_source = "tsc";
  return f;
}

node_check find(const std::vector<node_check>& checks, const std::string& name) {
  auto found = std::find_if(checks.begin(), checks.end(), [&](auto& c) { return c.name == name; });
  REQUIRE(found != checks.end());
  return *found;
}

struct fault {
  const char* check;
  check_status status;
  const char* found; ///< a part of it
  const char* fix;   ///< a part of it
  std::function<void(node_facts&)> cause;
};

const fault faults[] = {
    {"io_uring", check_status::fail, "kernel.io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0",
     [](auto& f) { f.io_uring_error = "not permitted", f.io_uring_disabled = 2; }},
    {"io_uring", check_status::fail, "no such call", "seccomp",
     [](auto& f) { f.io_uring_error = "no such call", f.io_uring_disabled.reset(); }},
    {"block store", check_status::fail, "/mnt/kv: read-only", "right to write",
     [](auto& f) { f.store->error = "read-only"; }},
    {"block store", check_status::warn, "no O_DIRECT", "ext4", [](auto& f) { f.store->direct_io = false; }},
    {"block store", check_status::warn, "xfs, 1.00 MiB free", "free some space",
     [](auto& f) { f.store->free_bytes = 1 << 20; }},
    {"locked memory", check_status::fail, "8.00 MiB", "memlock unlimited",
     [](auto& f) { f.memory_lock_bytes = 8 << 20; }},
    {"locked memory", check_status::warn, "64.0 GiB", "memlock unlimited",
     [](auto& f) { f.memory_lock_bytes = std::uint64_t{64} << 30; }},
    {"open files", check_status::fail, "256", "ulimit -n 65536",
     [](auto& f) { f.open_files = 256, f.most_open_files = 1 << 20; }},
    {"open files", check_status::warn, "1024", "limits.conf",
     [](auto& f) { f.open_files = f.most_open_files = 1024; }},
    {"shared memory", check_status::fail, "missing", "mount -t tmpfs",
     [](auto& f) { f.shared_memory_bytes.reset(); }},
    {"shared memory", check_status::warn, "64.0 MiB", "--shm-size",
     [](auto& f) { f.shared_memory_bytes = 64 << 20; }},
    {"RDMA devices", check_status::fail, "no rights", "/dev/infiniband",
     [](auto& f) { f.rdma_error = "no rights"; }},
    {"RDMA devices", check_status::warn, "none", "ibverbs-providers", [](auto& f) { f.rdma_ports.clear(); }},
    {"RDMA devices", check_status::fail, "mlx5_0:1 InfiniBand down", "subnet manager",
     [](auto& f) { f.rdma_ports = {port(false)}; }},
    {"RDMA devices", check_status::warn, "down", "ibstat",
     [](auto& f) {
       f.rdma_ports = {port(true), port(false)};
     }},
    {"RDMA devices", check_status::warn, "MTU 2048 of 4096", "raise the MTU",
     [](auto& f) { f.rdma_ports = {port(true, 2048)}; }},
    {"local copies", check_status::warn, "by the compute device: cannot lock", "ulimit -l",
     [](auto& f) { f.copies_device.clear(), f.copies_error = "cannot lock"; }},
    {"local copies", check_status::warn, "does not reach the memory of GPUs", "nvidia-peermem",
     [](auto& f) { f.peer_memory = false; }},
    {"socket buffers", check_status::warn, "208 KiB", "net.core.rmem_max=4194304",
     [](auto& f) { f.most_receive_buffer_bytes = 212992; }},
    {"UCX", check_status::fail, "without a transport to other nodes: posix", "UCX_TLS",
     [](auto& f) {
       f.ucx_transports = {{"posix", "memory"}};
     }},
    {"UCX", check_status::warn, "does not use the RDMA devices", "libucx0",
     [](auto& f) {
       f.ucx_transports = {{"tcp", "eth0"}};
     }},
    {"process memory", check_status::warn, "ptrace_scope is 1", "ptrace_scope=0",
     [](auto& f) { f.ptrace_scope = 1; }},
    {"PMIx", check_status::fail, "srun without PMIx", "--mpi=pmix", [](auto& f) { f.in_slurm_step = true; }},
    {"PMIx", check_status::warn, "no library", "libpmix2", [](auto& f) { f.pmix_version.clear(); }},
    {"GPU", check_status::warn, "none visible", "CUDA_VISIBLE_DEVICES", [](auto& f) { f.gpus = 0; }},
    {"GPU", check_status::warn, "no driver", "driver", [](auto& f) { f.gpus.reset(); }},
    {"GPU", check_status::warn, "8 GPUs, but built without CUDA", "nvidia-cuda-toolkit",
     [](auto& f) { f.built_with_cuda = false; }},
    {"huge pages", check_status::warn, "never", "transparent_hugepage",
     [](auto& f) { f.transparent_huge_pages = "never"; }},
    {"shared huge pages", check_status::warn, "in /dev/shm: never", "remount,huge=within_size",
     [](auto& f) { f.shared_huge_pages = "never"; }},
    {"CPU", check_status::warn, "no vector unit", "AVX2", [](auto& f) { f.vector_unit.clear(); }},
    {"CPU", check_status::warn, "powersave", "cpupower", [](auto& f) { f.governor = "powersave"; }},
    {"clock source", check_status::warn, "hpet", "tsc", [](auto& f) { f.clock_source = "hpet"; }},
};

} // namespace

TEST_CASE("a machine that lacks nothing passes every check", "[doctor]") {
  auto checks = judge_node(good_node());
  CHECK(is_fit(checks));
  std::set<std::string> names;
  for (const auto& check : checks) {
    INFO(check.name << ": " << check.found);
    CHECK(check.status == check_status::ok);
    CHECK_FALSE(check.found.empty());
    CHECK_FALSE(check.needed_for.empty());
    CHECK(check.fix.empty());
    CHECK(names.insert(check.name).second);
  }
}

TEST_CASE("each thing that is missing fails its own check only, and says how to fix it", "[doctor]") {
  for (const auto& fault : faults) {
    auto facts = good_node();
    fault.cause(facts);
    auto checks = judge_node(facts);
    INFO(fault.check << ", " << fault.found);
    auto check = find(checks, fault.check);
    CHECK(check.status == fault.status);
    CHECK_THAT(check.found, Catch::Contains(fault.found));
    CHECK_THAT(check.fix, Catch::Contains(fault.fix));
    CHECK(is_fit(checks) == (fault.status != check_status::fail));
    for (const auto& other : checks)
      if (other.name != check.name) CHECK(other.status == check_status::ok);
  }
}

TEST_CASE("what a machine does not need it is not asked for", "[doctor]") {
  auto facts = good_node();
  facts.store.reset();
  facts.memory_lock_bytes = 8 << 20;
  SECTION("locked memory without RDMA devices") {
    facts.rdma_ports.clear();
    CHECK(find(judge_node(facts), "locked memory").status == check_status::ok);
  }
  SECTION("a limit of locked memory that does not bind this user") {
    facts.may_lock_memory = true;
    CHECK(find(judge_node(facts), "locked memory").status == check_status::ok);
  }
  SECTION("rights of others over memory where this user has all") {
    facts.ptrace_scope = 1;
    facts.may_trace = true;
    CHECK(find(judge_node(facts), "process memory").status == check_status::ok);
  }
  SECTION("GPUs, by a build without CUDA on a machine without") {
    facts.built_with_cuda = false;
    facts.gpus.reset();
    CHECK(find(judge_node(facts), "GPU").status == check_status::ok);
  }
  CHECK(find(judge_node(facts), "block store").status == check_status::ok);
}

TEST_CASE("the table has what is wrong, what for and the fix; JSON has all of it", "[doctor]") {
  auto facts = good_node();
  facts.io_uring_error = "not permitted";
  facts.clock_source = "hpet";
  auto checks = judge_node(facts);
  auto text = format_checks(checks);
  CHECK_THAT(text, Catch::Contains("fail  io_uring"));
  CHECK_THAT(text, Catch::Contains("for: block stores in folders"));
  CHECK_THAT(text, Catch::Contains("fix: use kernel 5.15"));
  CHECK_THAT(text, Catch::Contains("14 ok, 1 to improve, 1 missing"));
  auto json = nlohmann::json::parse(checks_json(checks));
  CHECK(json["ok"] == false);
  REQUIRE(json["checks"].size() == checks.size());
  CHECK(json["checks"][0]["name"] == "io_uring");
  CHECK(json["checks"][0]["status"] == "fail");
  for (const auto& check : json["checks"]) CHECK(check.size() == 5);
}

TEST_CASE("a store is probed where it is or would be made, and nothing is left", "[doctor]") {
  auto folder = temporary_folder::make("dualpath-test");
  REQUIRE(folder);
  auto missing = folder->path() / "not" / "yet";
  for (const auto& where : {folder->path(), missing}) {
    auto facts = probe_store(where);
    CHECK(facts.error.empty());
    CHECK(facts.free_bytes > 0);
    CHECK_FALSE(facts.file_system.empty());
  }
  CHECK(std::filesystem::is_empty(folder->path()));
  CHECK_THAT(probe_store("/proc/dualpath").error, Catch::Contains("/proc"));
  CHECK_THAT(probe_store("/etc/hostname").error, Catch::Contains("/etc/hostname is no folder"));
  CHECK_THAT(probe_store("rados:/no/such/ceph.conf/kv").error, Catch::Contains("/no/such/ceph.conf"));
}

TEST_CASE("this machine is probed without harm", "[doctor]") {
  auto facts = probe_node({});
  CHECK_FALSE(facts.kernel.empty());
  CHECK(facts.open_files);
  CHECK_FALSE(facts.ucx_version.empty());
  CHECK(std::any_of(facts.ucx_transports.begin(), facts.ucx_transports.end(),
                    [](auto& each) { return each.name == "tcp" || each.name == "self"; }));
}

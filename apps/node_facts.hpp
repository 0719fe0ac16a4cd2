// What this machine is and allows, as far as DualPath cares: measured by probe_node(), judged by
// judge_node(). What could not be found out is empty.
#pragma once

#include "core/policy/qos.hpp"
#include "net/ucx_transports.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dualpath::apps {

constexpr std::uint64_t no_limit = ~std::uint64_t{0};

struct store_facts {
  std::string path;
  std::string error; ///< why nothing can be stored there; "": it can
  bool direct_io = false;
  std::string file_system; ///< for people
  std::uint64_t free_bytes = 0;
};

struct node_facts {
  std::string kernel; ///< release

  std::string io_uring_error;                               ///< "": it works
  std::optional<std::uint64_t> io_uring_disabled;           ///< sysctl kernel.io_uring_disabled
  std::optional<store_facts> store;                         ///< where one was named
  std::optional<std::uint64_t> memory_lock_bytes;           ///< limit; no_limit
  bool may_lock_memory = false;                             ///< CAP_IPC_LOCK: the limit does not count
  std::optional<std::uint64_t> open_files, most_open_files; ///< limit, and what it may be raised to
  std::optional<std::uint64_t> shared_memory_bytes;         ///< of /dev/shm, free; nothing: not there

  std::vector<core::port_report> rdma_ports;
  std::string rdma_error;
  std::string copies_device; ///< whose loop copies would take (--copies auto); "": none
  std::string copies_error;  ///< why not
  bool peer_memory = false;  ///< a driver lets NICs reach the memory of GPUs
  std::string ucx_version;
  std::vector<net::ucx_transport> ucx_transports;
  std::optional<std::uint64_t> most_receive_buffer_bytes; ///< sysctl net.core.rmem_max
  std::optional<std::uint64_t> ptrace_scope;              ///< of Yama; nothing: no Yama
  bool may_trace = false;                                 ///< CAP_SYS_PTRACE

  std::string pmix_version; ///< "": no library
  bool in_pmix = false;     ///< started by a launcher that serves PMIx
  bool in_slurm_step = false, in_open_mpi = false;

  bool built_with_cuda = false;
  std::optional<int> gpus; ///< as the driver counts; nothing: no driver
  std::optional<std::uint64_t> huge_pages_free;
  std::string transparent_huge_pages; ///< always, madvise, never
  std::string shared_huge_pages;      ///< of /dev/shm: always, within_size, advise, never
  std::string vector_unit;            ///< e.g. AVX-512; "": none that is used
  std::string governor;               ///< of the first CPU
  std::string clock_source;
};

struct probe_options {
  std::string store; ///< as --store; "": none
};

/// Takes some milliseconds; writes and removes one page in the store's folder.
node_facts probe_node(const probe_options& options);

} // namespace dualpath::apps

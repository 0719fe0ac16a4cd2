// How many requests can one core schedule? The real request scheduler and block directory, with every engine
// of a large cluster registered, serve requests whose engines answer at once: each is submitted, gets a
// prefill engine, a decode engine and a read path, is handed over and finishes. Actors run one after another
// on the calling thread, so that the CPU time of each is its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::apps {

struct scheduler_bench_options {
  std::uint32_t prefill_nodes = 48, decode_nodes = 96, engines_per_node = 8;
  std::uint32_t requests = 20000;
  std::uint32_t waiting = 1000;   ///< for a prefill engine, beyond those that are with one
  std::uint32_t in_decode = 2000; ///< at a time
  std::uint32_t context_tokens = 32768, block_tokens = 64;
  std::uint32_t requests_per_fetch = 100; ///< that arrive, and end, between two fetches of every node
};

struct message_count {
  std::string name;
  std::uint64_t bytes = 0; ///< of one, as it would cross a network
  double per_request = 0;
  bool between_processes = false; ///< else it never does, and shares what it carries
};

struct scheduler_bench_result {
  std::uint32_t engines = 0;
  std::uint64_t requests = 0, fetches = 0;
  double scheduler_cpu_s = 0, directory_cpu_s = 0;
  std::vector<message_count> messages; ///< to and from the scheduler

  double decisions_per_s() const { return static_cast<double>(requests) / scheduler_cpu_s; }
  double us_per_decision() const { return 1e6 * scheduler_cpu_s / static_cast<double>(requests); }
};

/// Takes some seconds, and memory for the contexts of all requests that are open.
scheduler_bench_result bench_scheduler(const scheduler_bench_options& options);

} // namespace dualpath::apps

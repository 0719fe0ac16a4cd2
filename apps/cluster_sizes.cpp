#include "apps/cluster_sizes.hpp"

#include "core/units.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace dualpath::apps {

namespace {

// Requests that an engine may hold at once by default; more would only wait elsewhere.
constexpr std::uint64_t requests_in_pool = 32;
constexpr std::uint64_t requests_in_staging = 4;
constexpr std::uint64_t max_staging_bytes = 512ULL << 20;

core::result<std::uint64_t> choose(const char* flag, std::uint64_t given_bytes, std::uint64_t unit_bytes,
                                   std::uint64_t least, std::uint64_t wanted, std::uint64_t affordable) {
  auto count = given_bytes != 0 ? given_bytes / unit_bytes : std::min(wanted, std::max(affordable, least));
  if (count >= least) {
    if (given_bytes != 0 || count <= std::max(affordable, wanted)) return count;
  }
  return core::error{core::errc::invalid_argument,
                     std::string{"the longest request needs "} + core::format_bytes(least * unit_bytes)
                         + " of " + flag + ", which is set to " + core::format_bytes(count * unit_bytes)
                         + "; give it more, or shrink the trace with --scale-tokens"};
}

} // namespace

core::result<engine_sizes> choose_sizes(const run_options& options, const core::block_layout& layout,
                                        std::uint64_t slot_bytes, std::uint32_t staging_slots,
                                        std::uint32_t write_slots, const core::trace_stats& trace,
                                        std::uint64_t available_bytes) {
  std::uint64_t prefill_engines = std::uint64_t{options.cluster.prefill_nodes} * options.gpus_per_node;
  std::uint64_t decode_engines = std::uint64_t{options.cluster.decode_nodes} * options.gpus_per_node;
  // A prefill engine has one large area, a decode engine two.
  auto share_bytes = available_bytes / 2 / (prefill_engines + 2 * decode_engines);
  auto longest = layout.blocks_for(trace.max_total);
  auto requests = std::min<std::uint64_t>(requests_in_pool, std::max<std::uint64_t>(trace.trajectories, 1));
  auto affordable = share_bytes / slot_bytes;
  auto least = longest + write_slots;
  if (affordable < least && options.pe_buffer_bytes + options.de_buffer_bytes + options.hbm_bytes == 0) {
    return core::error{core::errc::invalid_argument,
                       "the longest request needs " + core::format_bytes(least * slot_bytes)
                           + " of KV, an engine's share of this machine's memory is "
                           + core::format_bytes(share_bytes)
                           + "; shrink the trace with --scale-tokens, or use fewer engines"};
  }
  auto pe = choose("--pe-buffer", options.pe_buffer_bytes, slot_bytes, least,
                   requests * longest + write_slots, affordable);
  if (!pe) return pe.error();
  auto de = choose("--de-buffer", options.de_buffer_bytes, slot_bytes, least,
                   requests * longest + write_slots, affordable);
  if (!de) return de.error();
  auto hbm =
      choose("--hbm", options.hbm_bytes, layout.full_block_bytes(), longest, requests * longest, affordable);
  if (!hbm) return hbm.error();
  auto layer_bytes = layout.layer_block_bytes() * staging_slots;
  auto staging = choose("--staging", options.staging_bytes, layer_bytes, longest,
                        requests_in_staging * longest, max_staging_bytes / layer_bytes);
  if (!staging) return staging.error();
  engine_sizes sizes;
  sizes.pe_slots = static_cast<std::uint32_t>(*pe);
  sizes.de_slots = static_cast<std::uint32_t>(*de);
  sizes.hbm_blocks = static_cast<std::uint32_t>(*hbm);
  sizes.staging_bytes = *staging * layer_bytes;
  return sizes;
}

std::uint64_t available_memory_bytes() {
  std::ifstream meminfo{"/proc/meminfo"};
  std::string name, unit;
  std::uint64_t kib = 0;
  while (meminfo >> name >> kib) {
    std::getline(meminfo, unit);
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 4ULL << 30;
}

} // namespace dualpath::apps

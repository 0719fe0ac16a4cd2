#include "storage/bench_scan.hpp"

#include "core/cpu_time.hpp"
#include "storage/bench_pump.hpp"
#include "storage/block_directory.hpp"
#include "storage/block_header.hpp"
#include "storage/block_paths.hpp"
#include "storage/file_store.hpp"

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>

namespace dualpath::storage {
namespace {

constexpr unsigned in_flight = 64;
/// Blocks of one prompt; long enough for the directory to hold deep chains.
constexpr std::uint32_t prompt_blocks = 512;

core::model_fingerprint scan_model() {
  return {core::digest128(std::as_bytes(std::span{std::string_view{"dualpath scan bench"}}))};
}

std::vector<block_name> make_names(std::uint64_t blocks) {
  std::vector<block_name> names;
  names.reserve(blocks);
  auto parent = core::root_key(scan_model());
  for (std::uint64_t i = 0; i < blocks; ++i) {
    auto depth = static_cast<std::uint32_t>(i % prompt_blocks);
    if (depth == 0) parent = core::root_key(scan_model());
    core::token_id tokens[] = {static_cast<core::token_id>(i / prompt_blocks),
                               static_cast<core::token_id>(depth)};
    names.push_back({.key = core::child_key(parent, tokens), .parent = parent, .depth = depth});
    parent = names.back().key;
  }
  return names;
}

using operation = std::function<void(const block_name&, block_store::done)>;

/// Blocks a second.
core::result<double> for_all(const std::vector<block_name>& names, const operation& operate) {
  auto start = std::chrono::steady_clock::now();
  pump work{names.size(), [&](std::size_t number, std::size_t, block_store::done ended) {
              operate(names[number], std::move(ended));
            }};
  if (auto done = work.run(in_flight); !done) return done.error();
  return static_cast<double>(names.size()) / seconds_since(start);
}

void measure_directory(const std::vector<block_name>& names, scan_bench_result& result) {
  block_directory directory;
  auto count = static_cast<double>(names.size());
  auto start = std::chrono::steady_clock::now();
  for (auto& name : names) directory.insert(name);
  result.insert_us = seconds_since(start) * 1e6 / count;
  std::vector<core::block_key> keys;
  for (auto& name : names) keys.push_back(name.key);
  start = std::chrono::steady_clock::now();
  std::uint64_t found = 0;
  for (std::size_t first = 0; first < keys.size(); first += prompt_blocks)
    found += directory.longest_prefix(
        std::span{keys}.subspan(first, std::min<std::size_t>(prompt_blocks, keys.size() - first)));
  result.find_us = seconds_since(start) * 1e6 / static_cast<double>(std::max<std::uint64_t>(found, 1));
  result.directory_bytes_per_block = static_cast<double>(directory.memory_bytes()) / count;
}

void count_folders(const std::vector<block_name>& names, scan_bench_result& result) {
  std::map<std::string, std::uint64_t> files;
  for (auto& name : names) ++files[shard_path(name.key, 2).data()];
  result.folders = files.size();
  for (auto& [folder, count] : files) result.fullest_folder = std::max(result.fullest_folder, count);
}

} // namespace

core::result<scan_bench_result> bench_scan(const scan_bench_options& options) {
  if (options.blocks == 0)
    return core::error{core::errc::invalid_argument, "the scan bench needs at least one block"};
  core::block_layout layout{.layers = 1, .block_tokens = 1, .token_bytes = 8};
  auto opened = open_file_store({.directory = options.directory, .model = scan_model(), .layout = layout});
  if (!opened) return opened.error();
  auto& store = **opened;
  auto names = make_names(options.blocks);
  std::unique_ptr<std::byte, void (*)(void*)> page{
      static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, buffer_alignment)), std::free};
  std::fill_n(page.get(), buffer_alignment, std::byte{7});

  scan_bench_result result{.blocks = options.blocks, .file_bytes = header_bytes + buffer_alignment};
  auto written = for_all(names, [&](const block_name& name, block_store::done ended) {
    store.write(name, {page.get(), buffer_alignment}, std::move(ended));
  });
  auto measure = [&]() -> core::result<void> {
    if (!written) return written.error();
    result.written_per_s = *written;
    auto start = std::chrono::steady_clock::now();
    auto cpu_s = core::process_cpu_seconds();
    std::uint64_t visited = 0;
    if (auto done = store.scan([&](const block_name&) { ++visited; }); !done) return done;
    result.scan_s = seconds_since(start);
    result.scan_cpu_s = core::process_cpu_seconds() - cpu_s;
    result.scanned_per_s = static_cast<double>(visited) / result.scan_s;
    if (visited != options.blocks)
      return core::error{core::errc::io, "of " + std::to_string(options.blocks) + " blocks written, "
                                             + std::to_string(visited) + " were listed"};
    return {};
  };
  auto measured = measure();
  auto gone = for_all(names, [&](const block_name& name, block_store::done ended) {
    store.remove(name.key, std::move(ended));
  });
  if (!measured) return measured.error();
  if (!gone) return gone.error();
  measure_directory(names, result);
  count_folders(names, result);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  result.peak_bytes = static_cast<std::uint64_t>(used.ru_maxrss) << 10;
  return result;
}

} // namespace dualpath::storage

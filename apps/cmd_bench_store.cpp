#include "apps/cmd_bench_store.hpp"

#include "apps/command.hpp"
#include "apps/fio.hpp"
#include "apps/interrupts.hpp"
#include "apps/temporary_folder.hpp"
#include "core/units.hpp"
#include "storage/bench.hpp"
#include "storage/bench_scan.hpp"
#include "storage/block_paths.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace dualpath::apps {

namespace {

struct store_arguments {
  std::string dir, block = "4MiB";
  storage::bench_options bench;
  std::uint32_t rounds = 5;
  std::uint64_t scan_blocks = 0;
  bool no_fio = false;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// One line of the table: the same work done by the store and by fio, round by round.
struct row {
  const char* name;
  bool write, direct_io;
  std::vector<double> ours, ours_cpu, fio, ratios;

  void add(const storage::bench_phase& phase) {
    ours.push_back(phase.gb_per_s);
    ours_cpu.push_back(phase.cpu_s_per_gb);
  }
};

/// What an earlier phase left to be written back would slow down the next.
void settle(const std::filesystem::path& folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::syncfs(fd);
  ::close(fd);
}

class comparison {
public:
  comparison(const store_arguments& arguments, bool with_fio)
      : arguments_{arguments}, with_fio_{with_fio}, folder_{arguments.bench.directory / "fio"} {}
  ~comparison() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// Writes, then reads, `rounds` times on both sides, which take turns in going first.
  core::result<void> run(bool direct_io) {
    auto options = arguments_.bench;
    options.direct_io = direct_io;
    auto bench = storage::store_bench::open(options);
    if (!bench) return bench.error();
    if (describe_.empty()) describe_ = (*bench)->describe();
    checksum_ = (*bench)->checksum();
    if (direct_io && !(*bench)->direct()) {
      std::printf("no direct I/O on this file system, so no cold rows\n");
      return {};
    }
    row writes{direct_io ? "cold write" : "warm write", true, direct_io, {}, {}, {}, {}};
    row reads{direct_io ? "cold read" : "warm read", false, direct_io, {}, {}, {}, {}};
    for (std::uint32_t round = 0; round < arguments_.rounds; ++round)
      for (auto* each : {&writes, &reads})
        if (auto done = turn(*each, **bench, round % 2 == 1); !done) return done;
    if (auto gone = (*bench)->remove(); !gone) return gone;
    rows_.push_back(std::move(writes));
    rows_.push_back(std::move(reads));
    return {};
  }
  void print() const;

private:
  /// What the round before has written. File systems that discard what is freed do so at the next commit,
  /// which must not fall into a measured phase of either side.
  core::result<void> clear(storage::store_bench& bench, bool of_fio) {
    if (!of_fio) return bench.remove();
    std::error_code failed;
    std::filesystem::remove_all(folder_, failed);
    return {};
  }

  fio_job fio(bool write, bool direct_io) const {
    auto& bench = arguments_.bench;
    return {folder_, write, direct_io, bench.block_bytes, bench.blocks, bench.in_flight};
  }

  const char* fio_memory() const {
    return fio(false, true).on_huge_pages()
               ? "its buffers for direct I/O on huge pages"
               : "its buffers on small pages: too few huge ones are reserved (sysctl vm.nr_hugepages)";
  }

  core::result<void> turn(row& to, storage::store_bench& bench, bool fio_first) {
    for (bool fio_now : {fio_first, !fio_first}) {
      if (fio_now && !with_fio_) continue;
      if (to.write)
        if (auto gone = clear(bench, fio_now); !gone) return gone;
      settle(arguments_.bench.directory);
      if (fio_now) {
        auto phase = run_fio(fio(to.write, to.direct_io));
        if (!phase) return phase.error();
        to.fio.push_back(*phase);
      } else {
        auto phase = to.write ? bench.write() : bench.read();
        if (!phase) return phase.error();
        to.add(*phase);
      }
    }
    if (with_fio_) to.ratios.push_back(to.ours.back() / to.fio.back());
    return {};
  }

  const store_arguments& arguments_;
  const bool with_fio_;
  const std::filesystem::path folder_;
  std::vector<row> rows_;
  std::string describe_;
  storage::checksum_cost checksum_;
};

void comparison::print() const {
  std::printf("store     %s\n", describe_.c_str());
  if (with_fio_)
    std::printf("beside    %s: io_uring, one job of the same depth, a file a block, laid out beforehand and\n"
                "          read in random order, %s\n",
                fio_version().c_str(), fio_memory());
  std::printf("medians of %u rounds%s; cold rows are direct I/O, warm ones go through the page cache\n\n",
              arguments_.rounds, with_fio_ ? ", both in turn, the ratio that of the same round" : "");
  std::printf("%-10s  %10s  %8s%s\n", "", "store", "CPU s/GB",
              with_fio_ ? "         fio  ratio (least to most)" : "");
  for (auto& one : rows_) {
    std::printf("%-10s  %5.2f GB/s  %8.3f", one.name, median(one.ours), median(one.ours_cpu));
    if (with_fio_)
      std::printf("  %5.2f GB/s   %.2f (%.2f to %.2f)", median(one.fio), median(one.ratios),
                  *std::min_element(one.ratios.begin(), one.ratios.end()),
                  *std::max_element(one.ratios.begin(), one.ratios.end()));
    std::printf("\n");
  }
  auto percent = [](double cpu_s_per_gb) { return 100 * cpu_s_per_gb; };
  std::printf("\nchecksum    in %% of a core per GB/s, part of the CPU above: %.1f on bytes just copied "
              "(warm reads), "
              "%.1f on\n            bytes from memory (cold reads and all writes), of which %.1f are reading "
              "them, whoever does it\n",
              percent(checksum_.in_cache), percent(checksum_.from_memory), percent(checksum_.memory_alone));
}

int bench_scan(const store_arguments& arguments) {
  auto measured = storage::bench_scan({arguments.bench.directory, arguments.scan_blocks});
  if (!measured) return report_error(measured.error());
  std::printf("written   %llu blocks of %llu bytes on disk, %.0f blocks/s\n",
              static_cast<unsigned long long>(measured->blocks),
              static_cast<unsigned long long>(measured->file_bytes), measured->written_per_s);
  std::printf(
      "scan      %.0f blocks/s, %.1f s for all, %.1f s of CPU; the process took %s of memory at most\n",
      measured->scanned_per_s, measured->scan_s, measured->scan_cpu_s,
      core::format_bytes(measured->peak_bytes).c_str());
  std::printf("directory %.1f bytes of memory a block, %.2f us to insert one, %.2f us to find one\n",
              measured->directory_bytes_per_block, measured->insert_us, measured->find_us);
  std::printf("folders   %llu files in the fullest of %llu; %.0f in each with ten million blocks\n",
              static_cast<unsigned long long>(measured->fullest_folder),
              static_cast<unsigned long long>(measured->folders), 1e7 / storage::block_folders);
  return exit_ok;
}

int bench_store(store_arguments arguments) {
  std::error_code failed;
  std::filesystem::create_directories(arguments.dir, failed);
  interrupts on_signal{[](int signal, unsigned) {
    temporary_folder::remove_all();
    ::_exit(128 + signal);
  }};
  auto folder = temporary_folder::make("dualpath-bench", arguments.dir);
  if (!folder) return report_error(folder.error());
  arguments.bench.directory = folder->path();
  if (arguments.scan_blocks > 0) return bench_scan(arguments);
  auto block_bytes = core::parse_bytes(arguments.block);
  if (!block_bytes || *block_bytes == 0)
    return report_error({core::errc::invalid_argument,
                         "--block: '" + arguments.block + "' is not a size above 0; write it like 4MiB"});
  arguments.bench.block_bytes = *block_bytes;
  auto with_fio = !arguments.no_fio && !fio_version().empty();
  if (!with_fio && !arguments.no_fio)
    std::printf("fio is not installed, so nothing stands beside the figures: apt-get install fio\n");
  comparison measured{arguments, with_fio};
  for (bool direct_io : {true, false})
    if (auto done = measured.run(direct_io); !done) return report_error(done.error());
  measured.print();
  return exit_ok;
}

} // namespace

void add_bench_store(CLI::App& bench, int& exit_code) {
  auto* command =
      bench.add_subcommand("store", "Speed of a block store in a folder, verified reads, beside fio");
  auto a = std::make_shared<store_arguments>();
  command->add_option("dir", a->dir, "Folder on the disk to measure; what is written there is removed")
      ->required();
  command->add_option("--block", a->block, "Size of a block, as in 4MiB")
      ->type_name("BYTES")
      ->capture_default_str();
  auto count = [&](const char* flag, auto& target, auto most, const char* help) {
    command->add_option(flag, target, help)
        ->type_name("N")
        ->check(CLI::Range(decltype(most){1}, most))
        ->capture_default_str();
  };
  count("--blocks", a->bench.blocks, 1000000U, "How many");
  count("--in-flight", a->bench.in_flight, 4096U,
        "Operations at the disk at a time; twice as many are asked for");
  count("--threads", a->bench.threads, 64U, "Of the store; fio has one");
  count("--rounds", a->rounds, 1000U, "Times everything is measured");
  command->add_flag("--no-fio", a->no_fio, "The store alone");
  command
      ->add_option("--scan-blocks", a->scan_blocks,
                   "Instead: write so many of the smallest blocks, list them as a start does, and hold them "
                   "in the directory")
      ->type_name("N")
      ->check(CLI::Range(1U, 100000000U));
  command->callback([a, &exit_code] { exit_code = bench_store(*a); });
}

} // namespace dualpath::apps

#include "apps/cmd_bench_lanes.hpp"

#include "apps/bench_arbiter.hpp"
#include "apps/command.hpp"
#include "apps/lane_separation.hpp"
#include "core/units.hpp"
#include "net/bench_lanes.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

constexpr double p50_target = 1.5, p99_target = 4, alone_target = 0.9;

void print_latency(const char* name, const net::lanes_report& r, double net::message_latency::*us,
                   double net::latency_ratio::*ratio, double target) {
  std::printf("%-4s %9.1f %9.1f %8.1fx %9.1f %8.1fx   <= %.1fx\n", name, r.idle.*us, r.unpaced.*us,
              r.unpaced_over_idle.*ratio, r.paced.*us, r.paced_over_idle.*ratio, target);
}

void print(const net::lanes_report& r) {
  std::printf("64 bytes there and back on lane collective, us\n");
  std::printf("%-4s %9s %19s %19s   %s\n", "", "idle", "KV, unpaced", "KV, paced", "target");
  print_latency("p50", r, &net::message_latency::p50_us, &net::latency_ratio::p50, p50_target);
  print_latency("p99", r, &net::message_latency::p99_us, &net::latency_ratio::p99, p99_target);
  std::printf("%-4s %9s %14.2f GB/s %14.2f GB/s\n\n", "KV", "", r.unpaced.kv_gb_per_s, r.paced.kv_gb_per_s);
  std::printf("%-28s %9s %9s   GB/s, both directions together\n", "", "unpaced", "paced");
  std::printf("%-28s %9.2f %9.2f   %.2f of unpaced, target >= %.1f\n", "KV alone", r.kv_alone_unpaced,
              r.kv_alone_paced, r.kv_alone_ratio, alone_target);
  std::printf("%-28s %9.2f %9.2f\n", "collectives, both saturated", r.both_unpaced.collective,
              r.both_paced.collective);
  std::printf("%-28s %9.3f %9.3f   share %.2f %%, target >= %.2f %%\n", "KV, both saturated",
              r.both_unpaced.kv, r.both_paced.kv, 100 * r.both_paced.kv_share(), 100 * r.kv_table_share);
}

struct lanes_arguments {
  net::lanes_bench_options bench;
  raw_run_options qos;
  std::string quantum = "256KiB", window = "1MiB", quiet_window = "4MiB", reserve = "256KiB";
  std::string busy_poll = "100us";
  std::uint32_t time_ms = 300;
};

core::result<void> read_values(lanes_arguments& a) {
  struct size {
    const char* flag;
    const std::string& text;
    std::uint64_t& bytes;
  };
  for (auto& each : {size{"--quantum", a.quantum, a.bench.quantum_bytes},
                     size{"--window", a.window, a.bench.window.shared_bytes},
                     size{"--quiet-window", a.quiet_window, a.bench.window.quiet_shared_bytes},
                     size{"--reserve", a.reserve, a.bench.window.reserve_bytes}}) {
    auto bytes = core::parse_bytes(each.text);
    if (!bytes || *bytes == 0)
      return core::error{core::errc::invalid_argument, std::string{each.flag} + ": '" + each.text
                                                           + "' is not a size above 0; write it like 256KiB"};
    each.bytes = *bytes;
  }
  auto spin = core::parse_duration(a.busy_poll);
  if (!spin) return spin.error();
  a.bench.collective_busy_poll = *spin;
  return {};
}

int bench_lanes(lanes_arguments& a) {
  a.bench.time = std::chrono::milliseconds{a.time_ms};
  auto qos = resolve_qos(a.qos);
  if (!qos) return report_error(qos.error());
  a.bench.qos = std::move(*qos);
  if (auto read = read_values(a); !read) return report_error(read.error());
  auto report = net::measure_lanes(a.bench);
  if (!report) return report_error(report.error());
  print(*report);
  return exit_ok;
}

void add_lanes(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand(
      "lanes", "What saturated KV traffic does to small collectives, with and without paced lanes");
  auto a = std::make_shared<lanes_arguments>();
  a->bench.kv_niceness = kv_niceness;
  auto number = [&](const char* flag, auto& target, auto least, auto most, const char* help) {
    command->add_option(flag, target, help)
        ->type_name("N")
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  auto size = [&](const char* flag, std::string& target, const char* help) {
    command->add_option(flag, target, help)->type_name("BYTES")->capture_default_str();
  };
  command->add_option("--transports", a->bench.transports, "As UCX_TLS, e.g. tcp or posix,cma,self,tcp")
      ->type_name("LIST");
  command
      ->add_option("--busy-poll", a->busy_poll,
                   "How long a collective lane spins after its last message before it sleeps")
      ->type_name("TIME")
      ->capture_default_str();
  number("--repeats", a->bench.repeats, 1U, 1000U, "Runs of every case, in turn; medians count");
  number("--time", a->time_ms, 1U, 60000U, "Milliseconds of a case");
  size("--quantum", a->quantum, "Of a transfer, handed on at a time");
  size("--window", a->window, "Under way at a time");
  size("--quiet-window", a->quiet_window, "In place of it while collectives are silent");
  size("--reserve", a->reserve, "Beyond the window, for lanes of the high table");
  number("--kv-niceness", a->bench.kv_niceness, 0, 19, "Of KV's threads where lanes are paced; 0: none");
  bind_run_options(*command, a->qos, run_command::qos);
  command->callback([a, &exit_code] { exit_code = bench_lanes(*a); });
}

int bench_arbiter(const raw_run_options& given, std::uint64_t picks) {
  auto qos = resolve_qos(given);
  if (!qos) return report_error(qos.error());
  core::steady_clock clock;
  std::printf("%-34s %9s  %s\n", "messages", "Mpicks/s", "share of each class, %; worst error, points");
  std::printf("%-34s %9s", "the tables", "");
  for (auto share : core::sure_shares(*qos)) std::printf("  %6.2f", 100 * share);
  std::printf("\n");
  for (auto& row : measure_arbiter(*qos, picks, clock, 1)) {
    std::printf("%-34s %9.1f", row.mix.c_str(), row.picks_per_s * 1e-6);
    for (auto share : row.shares) std::printf("  %6.2f", 100 * share);
    std::printf("  %6.2f\n", 100 * row.worst_error);
  }
  return exit_ok;
}

void add_arbiter(CLI::App& bench, int& exit_code) {
  struct arguments {
    raw_run_options qos;
    std::uint64_t picks = 5'000'000;
  };
  auto* command = bench.add_subcommand(
      "arbiter", "Speed of the arbiter, and the shares it gives lanes that all want everything");
  auto a = std::make_shared<arguments>();
  command->add_option("--picks", a->picks, "Of every mix of messages")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}))
      ->capture_default_str();
  bind_run_options(*command, a->qos, run_command::qos);
  command->callback([a, &exit_code] { exit_code = bench_arbiter(a->qos, a->picks); });
}

} // namespace

void add_bench_lanes(CLI::App& bench, int& exit_code) {
  add_lanes(bench, exit_code);
  add_arbiter(bench, exit_code);
}

} // namespace dualpath::apps

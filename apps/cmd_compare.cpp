#include "apps/cmd_compare.hpp"

#include "apps/command.hpp"
#include "apps/graceful_end.hpp"
#include "apps/logging.hpp"
#include "apps/options.hpp"
#include "apps/progress.hpp"
#include "apps/report.hpp"
#include "apps/run_cluster.hpp"
#include "core/run_summary.hpp"
#include "core/units.hpp"
#include "storage/store_spec.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <memory>

namespace dualpath::apps {

namespace {

/// One policy of a comparison: its own blocks, so that none finds what another has stored.
core::result<run_options> options_for(const run_options& all, core::policy policy) {
  auto one = all;
  one.policy = policy;
  if (all.store.empty()) return one;
  auto spec = storage::parse_store_spec(all.store);
  if (!spec) return spec.error();
  if (spec->what != storage::store_spec::kind::files)
    return core::error{core::errc::invalid_argument,
                       "compare keeps the blocks of each policy apart and needs a folder, not '--store "
                           + all.store + "'; use run with one policy at a time"};
  one.store = (spec->path / to_string(policy)).string();
  return one;
}

/// What was done before a policy failed is worth as much as before; the exit status is that of the failure.
int report_unfinished(const run_options& options, const std::vector<core::run_summary>& runs,
                      core::policy failed, const core::error& why) {
  if (!runs.empty())
    std::cout << format_comparison(runs) << "Incomplete: " << to_string(failed)
              << " failed, and policies after it did not run.\n";
  if (!options.report.empty())
    if (auto written = write_report(options.report, runs, {to_string(failed), why.text}); !written)
      report_error(written.error());
  return report_error(why);
}

int compare(const raw_run_options& raw) {
  auto launch = net::detect_launch();
  if (launch.rank > 0) return serve_launched_node(raw);
  auto options = resolve(raw);
  if (!options) return report_error(options.error());
  if (auto logs = set_up_logging(options->log); !logs) return report_error(logs.error());
  graceful_end end;
  auto session = open_session(*options, raw, launch);
  if (!session) return report_error(session.error());
  auto inputs = prepare_inputs(*options);
  if (!inputs) return report_error(inputs.error());
  std::vector<core::run_summary> runs;
  for (auto policy : options->policies) {
    auto one = options_for(*options, policy);
    if (!one) return report_error(one.error());
    auto record = [&] {
      progress bar{to_string(policy), !options->no_progress};
      return run_once(
          *one, *inputs, **session,
          [&](auto done, auto total, auto tokens) {
            bar.update(done, total, core::format_count(static_cast<double>(tokens)) + " tokens");
          },
          end.drain());
    }();
    if (!record) return report_unfinished(*options, runs, policy, record.error());
    runs.push_back(core::summarise(*record));
    if (end.requested()) break;
  }
  std::cout << format_comparison(runs);
  if (!options->report.empty())
    if (auto written = write_report(options->report, runs); !written) return report_error(written.error());
  return end.exit_code(digests_agree(runs) ? exit_ok : exit_failed);
}

} // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "compare", "Serve the same trace under several policies and print them side by side");
  auto raw = std::make_shared<raw_run_options>();
  bind_run_options(*command, *raw, run_command::compare);
  command->callback([raw, &exit_code] { exit_code = compare(*raw); });
}

} // namespace dualpath::apps

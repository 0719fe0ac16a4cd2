#include "apps/cmd_run.hpp"

#include "apps/command.hpp"
#include "apps/graceful_end.hpp"
#include "apps/logging.hpp"
#include "apps/options.hpp"
#include "apps/progress.hpp"
#include "apps/report.hpp"
#include "apps/run_cluster.hpp"
#include "core/run_summary.hpp"
#include "core/units.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <memory>

namespace dualpath::apps {

namespace {

int run(const raw_run_options& raw) {
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
  core::result<core::run_record> record = [&] {
    progress bar{to_string(options->policy), !options->no_progress};
    return run_once(
        *options, *inputs, **session,
        [&](auto done, auto total, auto tokens) {
          bar.update(done, total, core::format_count(static_cast<double>(tokens)) + " tokens");
        },
        end.drain());
  }();
  if (!record) return report_error(record.error());
  auto summary = core::summarise(*record);
  std::cout << format_run(summary);
  if (!options->report.empty())
    if (auto written = write_report(options->report, std::span{&summary, 1}); !written)
      return report_error(written.error());
  if (!options->tokens.empty())
    if (auto written = write_tokens(options->tokens, *record); !written) return report_error(written.error());
  return end.exit_code(exit_ok);
}

} // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("run", "Serve an agent trace on a cluster under one policy");
  auto raw = std::make_shared<raw_run_options>();
  bind_run_options(*command, *raw, run_command::run);
  command->callback([raw, &exit_code] { exit_code = run(*raw); });
}

} // namespace dualpath::apps

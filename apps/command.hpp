// What all subcommands share: how an error is told, and the program as a function.
#pragma once

#include "core/result.hpp"

namespace dualpath::apps {

/// Exit codes of every subcommand. One that is ended by SIGINT or SIGTERM has 128 + the signal's number (see
/// graceful_end.hpp).
enum exit_status : int {
  exit_ok = 0,
  exit_failed = 1, ///< tried, and did not succeed: a device, a check, tokens that differ
  exit_usage = 2,  ///< not tried: what the user gave is no good
};

/// Prints "dualpath: TEXT" to standard error; returns exit_usage for bad input, exit_failed for anything
/// else.
int report_error(const core::error& failure);

/// The program: parses, runs the subcommand, returns its exit_status.
int run_command_line(int argc, const char* const* argv);

} // namespace dualpath::apps

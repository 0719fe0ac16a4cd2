// What all subcommands share: how an error is told, and the program as a function.
#pragma once

#include "apps/options.hpp"
#include "core/result.hpp"

namespace dualpath::apps {

/// Prints "dualpath: TEXT" to standard error; returns exit_usage for bad input, exit_failed for anything
/// else.
int report_error(const core::error& failure);

/// The program: parses, runs the subcommand, returns its exit_status.
int run_command_line(int argc, const char* const* argv);

} // namespace dualpath::apps

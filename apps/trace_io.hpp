// Traces as files: native trajectories and the Mooncake request format, both JSON Lines
// (docs/guides/traces.md). Errors name file, line and reason.
#pragma once

#include "core/result.hpp"
#include "core/workload/trace.hpp"

#include <cstdint>
#include <iosfwd>
#include <string>

namespace dualpath::apps {

struct trace_options {
  /// Tokens per hash id in Mooncake files; 0: found from lengths and numbers of ids.
  std::uint32_t hash_block_tokens = 0;
  /// Trajectories of a synthetic trace; files are read whole.
  std::uint32_t trajectories = 500;
  std::uint64_t seed = 1;
};

/// `spec` is a path, or synthetic:32K, synthetic:48K, synthetic:64K.
core::result<core::trace> load_trace(const std::string& spec, const trace_options& options = {});
/// The same from a stream; `name` stands for the file in errors.
core::result<core::trace> read_trace(std::istream& in, const std::string& name,
                                     const trace_options& options = {});
/// Native format; absolute prompts are kept as "prompt" and "hash_ids".
void write_trace(std::ostream& out, const core::trace& t);

} // namespace dualpath::apps

// The two line formats behind trace_io, and what they share: reading fields of a JSON line with errors that
// name file, line, field and reason.
#pragma once

#include "apps/trace_io.hpp"
#include "core/result.hpp"
#include "core/workload/trace.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace dualpath::apps {

/// Longer sequences are taken for mistakes.
inline constexpr std::uint64_t max_sequence_tokens = std::uint64_t{1} << 24;
inline constexpr double max_trace_ms = 1e12;

struct trace_line {
  const std::string& file;
  std::size_t number = 0;
  nlohmann::json value; ///< an object

  core::error fail(const std::string& reason) const;
};

/// A value as an error shows it, on one line: a mistaken value may be as long as the file.
std::string shown(const nlohmann::json& value);
/// A whole number between `least` and max_sequence_tokens.
core::result<std::uint32_t> token_count(const trace_line& line, const nlohmann::json& object,
                                        const char* field, std::uint32_t least);
/// Milliseconds, not negative; `fallback` < 0 makes the field mandatory.
core::result<double> milliseconds(const trace_line& line, const nlohmann::json& object, const char* field,
                                  double fallback);
/// A string, or a whole number as its decimal digits.
core::result<std::string> session_name(const trace_line& line, const nlohmann::json& object,
                                       const char* field);
/// A list of whole numbers, not empty.
core::result<std::vector<std::uint64_t>> number_list(const trace_line& line, const nlohmann::json& list,
                                                     const char* field, std::uint64_t most);

/// {"session", "arrival_ms", "rounds": [{"append", "generate", "tool_ms"}]}, one trajectory a line.
class native_reader {
public:
  core::result<void> add(const trace_line& line);
  core::result<core::trace> finish();

private:
  core::result<core::round_spec> read_round(const trace_line& line, const nlohmann::json& object) const;

  core::trace trace_;
  std::set<std::string> sessions_;
};

/// {"timestamp", "input_length", "output_length", "hash_ids", "session_id"?}, one request a line.
class mooncake_reader {
public:
  mooncake_reader(const std::string& file, std::uint32_t block_tokens);
  core::result<void> add(const trace_line& line);
  core::result<core::trace> finish();

private:
  struct request {
    std::size_t line;
    double timestamp_ms;
    core::round_spec round;
  };
  core::result<void> narrow_block(const trace_line& line, const core::round_spec& round);
  std::uint32_t chosen_block() const;
  /// Milliseconds a generated token took at least, judged by the shortest pauses between the requests of a
  /// session.
  double service_ms_per_token() const;

  const std::string& file_;
  std::uint64_t least_block_ = 1, most_block_ = max_sequence_tokens;
  bool given_block_ = false;
  bool have_sessions_ = false;
  std::vector<std::string> names_;
  std::vector<std::vector<request>> sessions_;
  std::unordered_map<std::string, std::size_t> index_;
};

} // namespace dualpath::apps

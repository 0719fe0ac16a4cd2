#include "apps/trace_formats.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace dualpath::apps {

using nlohmann::json;

mooncake_reader::mooncake_reader(const std::string& file, std::uint32_t block_tokens) : file_{file} {
  if (block_tokens == 0) return;
  least_block_ = most_block_ = block_tokens;
  given_block_ = true;
}

core::result<void> mooncake_reader::narrow_block(const trace_line& line, const core::round_spec& round) {
  // (n - 1) · block < length <= n · block
  std::uint64_t n = round.prompt_hash_ids.size(), length = round.prompt_tokens;
  auto least = std::max(least_block_, (length + n - 1) / n);
  auto most = n == 1 ? most_block_ : std::min(most_block_, (length - 1) / (n - 1));
  if (least <= most) {
    least_block_ = least;
    most_block_ = most;
    return {};
  }
  auto what = std::to_string(length) + " tokens in " + std::to_string(n) + " hash_ids do not fit ";
  if (given_block_) return line.fail(what + "the given block of " + std::to_string(least_block_) + " tokens");
  return line.fail(what + "the block size of the lines before, " + std::to_string(chosen_block())
                   + " tokens");
}

std::uint32_t mooncake_reader::chosen_block() const {
  constexpr std::uint64_t usual = 512; // of the published traces, where a file leaves a choice
  if (least_block_ <= usual && usual <= most_block_) return usual;
  auto power = std::bit_ceil(least_block_);
  return static_cast<std::uint32_t>(power <= most_block_ ? power : least_block_);
}

core::result<void> mooncake_reader::add(const trace_line& line) {
  request r;
  r.line = line.number;
  auto timestamp = milliseconds(line, line.value, "timestamp", -1);
  if (!timestamp) return timestamp.error();
  r.timestamp_ms = *timestamp;
  auto input = token_count(line, line.value, "input_length", 1);
  if (!input) return input.error();
  r.round.prompt_tokens = *input;
  auto output = token_count(line, line.value, "output_length", 1);
  if (!output) return output.error();
  r.round.generate_tokens = *output;
  auto list = line.value.find("hash_ids");
  if (list == line.value.end()) return line.fail("field 'hash_ids' is missing");
  auto ids = number_list(line, *list, "hash_ids", std::numeric_limits<std::uint64_t>::max());
  if (!ids) return ids.error();
  r.round.prompt_hash_ids = std::move(*ids);
  auto fits = narrow_block(line, r.round);
  if (!fits) return fits.error();

  auto has_session = line.value.contains("session_id");
  if (names_.empty()) have_sessions_ = has_session;
  if (has_session != have_sessions_)
    return line.fail("'session_id' must be on every line of a file or on none");
  auto digits = std::to_string(names_.size());
  auto name = "request-" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
  if (has_session) {
    auto session = session_name(line, line.value, "session_id");
    if (!session) return session.error();
    name = std::move(*session);
  }
  auto [entry, fresh] = index_.try_emplace(name, names_.size());
  if (fresh) {
    names_.push_back(name);
    sessions_.emplace_back();
  }
  auto& rows = sessions_[entry->second];
  if (!rows.empty() && rows.back().timestamp_ms > r.timestamp_ms)
    return line.fail("timestamp is before the one of line " + std::to_string(rows.back().line)
                     + " of the same session");
  rows.push_back(std::move(r));
  return {};
}

double mooncake_reader::service_ms_per_token() const {
  auto least = std::numeric_limits<double>::infinity();
  for (const auto& rows : sessions_)
    for (std::size_t i = 1; i < rows.size(); ++i) {
      auto gap_ms = rows[i].timestamp_ms - rows[i - 1].timestamp_ms;
      if (gap_ms > 0) least = std::min(least, gap_ms / rows[i - 1].round.generate_tokens);
    }
  return least == std::numeric_limits<double>::infinity() ? 0 : least;
}

core::result<core::trace> mooncake_reader::finish() {
  // A timestamp says when a request was sent, so the gap to the next one holds the service of the first and
  // the tool's work. The replay has a service time of its own, so the recorded one is taken out, as far as
  // the trace shows it.
  auto service_ms = service_ms_per_token();
  auto block = chosen_block();
  core::trace t;
  t.trajectories.reserve(sessions_.size());
  for (std::size_t s = 0; s < sessions_.size(); ++s) {
    auto& rows = sessions_[s];
    core::trajectory one;
    one.session = std::move(names_[s]);
    one.arrival_ms = rows.front().timestamp_ms;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto& round = rows[i].round;
      round.prompt_hash_block_tokens = block;
      if (i > 0) {
        auto gap_ms = rows[i].timestamp_ms - rows[i - 1].timestamp_ms;
        round.tool_ms = std::max(0.0, gap_ms - service_ms * rows[i - 1].round.generate_tokens);
      }
      one.rounds.push_back(std::move(round));
    }
    t.trajectories.push_back(std::move(one));
  }
  return t;
}

} // namespace dualpath::apps

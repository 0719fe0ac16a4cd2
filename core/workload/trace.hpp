// What agents ask of a cluster: trajectories of many rounds over one growing context (spec §8). A round
// either appends tokens to everything said so far, or, in traces of the Mooncake kind, names its whole prompt
// by block hashes. Plain data; token counts throughout.
#pragma once

#include "core/ids.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::core {

struct round_spec {
  /// Tokens added to the context before this round; ignored where the prompt is absolute.
  std::uint32_t append_tokens = 0;
  /// The added tokens themselves, append_tokens of them; empty where they are to be synthesised from the
  /// seed.
  std::vector<token_id> append_ids;
  /// Absolute prompt: one id per block of the prompt, equal ids for equal prefixes, in any session. Empty:
  /// appended.
  std::vector<std::uint64_t> prompt_hash_ids;
  std::uint32_t prompt_hash_block_tokens = 0;
  /// Length of the absolute prompt: its last block may be partly filled.
  std::uint32_t prompt_tokens = 0;
  /// Exactly so many tokens are generated.
  std::uint32_t generate_tokens = 0;
  /// Pause between the end of the round before and the start of this one (a tool at work).
  double tool_ms = 0;

  bool absolute() const { return !prompt_hash_ids.empty(); }
};

struct trajectory {
  std::string session; ///< unique in a trace
  double arrival_ms = 0;
  std::vector<round_spec> rounds;
};

struct trace {
  std::string name;
  std::vector<trajectory> trajectories;
};

/// `append`, `generate` and `context` are means over trajectories of the mean over the rounds of each, as the
/// paper counts: 60 turns of 608 + 148 tokens could not fit a limit of 32 K otherwise.
struct trace_stats {
  std::uint64_t trajectories = 0, rounds = 0;
  double mean_turns = 0; ///< rounds a trajectory
  double mean_append =
      0; ///< new prompt tokens a round; of an absolute prompt, those past the last round's prompt
  double mean_generate = 0; ///< generated tokens a round
  double mean_total = 0;    ///< tokens of a trajectory after its last round
  double mean_context = 0;  ///< prompt tokens a round
  std::uint64_t max_prompt = 0, max_total = 0;
  std::uint64_t prompt_tokens = 0, generate_tokens = 0; ///< sums over all rounds
  /// Share of all prompt tokens that some earlier round could have left in a store of one-token blocks.
  double hit_upper_bound = 0;
};

trace_stats compute_stats(const trace& t);

/// Every length times `factor` (> 0), at least one token each. Absolute prompts are scaled by their block,
/// which keeps at least one token, so that prefixes stay prefixes. Explicit ids are cut, or followed by
/// synthesised ones.
trace scale_tokens(trace t, double factor);

/// The first `agents` trajectories and `max_rounds` rounds of each; 0 means all.
trace limit(trace t, std::uint32_t agents, std::uint32_t max_rounds);

} // namespace dualpath::core

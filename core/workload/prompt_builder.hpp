// Turns a trajectory into prompts, round by round, by the replay rule of spec §8: the prompt of a round is
// everything appended and generated before plus what the round appends. Synthesised tokens depend on (seed,
// session, round, position) alone; tokens of an absolute prompt on (seed, hash id, position in the block), so
// that equal hash ids mean equal tokens in every session. Not thread-safe; the trajectory must outlive the
// builder.
#pragma once

#include "core/workload/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dualpath::core {

class prompt_builder {
public:
  /// Tokens are below `vocabulary` (> 0); explicit ids are taken modulo the vocabulary.
  prompt_builder(const trajectory& t, std::uint64_t seed, std::uint32_t vocabulary);

  bool finished() const { return next_round_ == trajectory_->rounds.size(); }
  /// Index of the round next_prompt() is about.
  std::size_t next_round() const { return next_round_; }
  /// What the next round says; only while not finished.
  const round_spec& next_spec() const { return trajectory_->rounds[next_round_]; }
  /// The prompt of the next round, which thereby begins; only while not finished.
  std::vector<token_id> next_prompt();
  /// What the round that began last generated; may be called piecewise. An absolute prompt does not build on
  /// it.
  void generated(std::span<const token_id> tokens);

private:
  void append_round(const round_spec& round);
  void build_absolute(const round_spec& round);

  const trajectory* trajectory_;
  std::uint64_t seed_, session_seed_;
  std::uint32_t vocabulary_;
  std::size_t next_round_ = 0;
  std::vector<token_id> context_;
};

} // namespace dualpath::core

#include "core/workload/trace.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_set>

namespace dualpath::core {

namespace {

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Counts the prompt tokens nobody asked for before; the rest are what a store could hold at best.
class prefix_set {
public:
  std::uint64_t new_tokens_of_absolute(const round_spec& round) {
    std::uint64_t chain = 1, fresh = 0, position = 0;
    for (auto id : round.prompt_hash_ids) {
      auto tokens = std::min<std::uint64_t>(round.prompt_hash_block_tokens, round.prompt_tokens - position);
      chain = mix(chain ^ mix(id));
      if (seen_.insert(chain).second) fresh += tokens;
      position += tokens;
    }
    return fresh;
  }

  /// Explicit ids that open a session may be shared with other sessions.
  std::uint64_t new_tokens_of_opening(std::span<const token_id> ids) {
    std::uint64_t chain = 2, fresh = 0;
    for (auto id : ids) {
      chain = mix(chain ^ mix(id));
      fresh += seen_.insert(chain).second ? 1 : 0;
    }
    return fresh;
  }

private:
  std::unordered_set<std::uint64_t> seen_;
};

std::uint32_t shared_blocks(const round_spec& a, const round_spec& b) {
  auto ends = std::mismatch(a.prompt_hash_ids.begin(), a.prompt_hash_ids.end(), b.prompt_hash_ids.begin(),
                            b.prompt_hash_ids.end());
  return static_cast<std::uint32_t>(ends.first - a.prompt_hash_ids.begin());
}

struct sums {
  double append = 0, generate = 0, context = 0;
  std::uint64_t total = 0;
};

/// Adds one trajectory to `stats`, whose means hold sums until the end.
sums walk(const trajectory& t, prefix_set& seen, std::uint64_t& fresh_tokens, trace_stats& stats) {
  sums s;
  std::uint64_t context = 0;
  const round_spec* before = nullptr;
  for (const auto& round : t.rounds) {
    std::uint64_t prompt, append, fresh;
    if (round.absolute()) {
      prompt = round.prompt_tokens;
      std::uint64_t shared =
          before != nullptr && before->absolute()
              ? std::uint64_t{shared_blocks(*before, round)} * round.prompt_hash_block_tokens
              : 0;
      append = prompt - std::min(shared, prompt);
      fresh = seen.new_tokens_of_absolute(round);
    } else {
      append = round.append_tokens;
      prompt = context + append;
      auto opening = before == nullptr && !round.append_ids.empty();
      fresh = opening ? seen.new_tokens_of_opening(round.append_ids) : append;
    }
    context = prompt + round.generate_tokens;
    s.append += static_cast<double>(append);
    s.generate += round.generate_tokens;
    s.context += static_cast<double>(prompt);
    s.total = std::max(s.total, context);
    stats.prompt_tokens += prompt;
    stats.generate_tokens += round.generate_tokens;
    stats.max_prompt = std::max(stats.max_prompt, prompt);
    fresh_tokens += fresh;
    before = &round;
  }
  stats.max_total = std::max(stats.max_total, s.total);
  return s;
}

std::uint32_t scaled(std::uint32_t tokens, double factor) {
  constexpr double most = 1e9;
  return static_cast<std::uint32_t>(std::clamp(std::round(tokens * factor), 1.0, most));
}

/// Cuts explicit ids to `size`, or repeats them up to it.
void scale_ids(std::vector<token_id>& ids, std::uint32_t size) {
  auto given = ids.size();
  if (given == 0) return;
  ids.resize(size);
  for (std::size_t i = given; i < size; ++i) ids[i] = ids[i - given];
}

} // namespace

trace_stats compute_stats(const trace& t) {
  trace_stats stats;
  stats.trajectories = t.trajectories.size();
  prefix_set seen;
  std::uint64_t fresh_tokens = 0;
  for (const auto& one : t.trajectories) {
    if (one.rounds.empty()) continue;
    auto s = walk(one, seen, fresh_tokens, stats);
    auto turns = static_cast<double>(one.rounds.size());
    stats.rounds += one.rounds.size();
    stats.mean_append += s.append / turns;
    stats.mean_generate += s.generate / turns;
    stats.mean_context += s.context / turns;
    stats.mean_total += static_cast<double>(s.total);
  }
  if (stats.trajectories == 0) return stats;
  auto n = static_cast<double>(stats.trajectories);
  stats.mean_turns = static_cast<double>(stats.rounds) / n;
  for (auto* mean : {&stats.mean_append, &stats.mean_generate, &stats.mean_context, &stats.mean_total})
    *mean /= n;
  if (stats.prompt_tokens > 0)
    stats.hit_upper_bound = 1 - static_cast<double>(fresh_tokens) / static_cast<double>(stats.prompt_tokens);
  return stats;
}

trace scale_tokens(trace t, double factor) {
  for (auto& one : t.trajectories)
    for (auto& round : one.rounds) {
      round.generate_tokens = scaled(round.generate_tokens, factor);
      if (!round.absolute()) {
        round.append_tokens = scaled(round.append_tokens, factor);
        scale_ids(round.append_ids, round.append_tokens);
        continue;
      }
      auto blocks = static_cast<std::uint32_t>(round.prompt_hash_ids.size());
      auto last = round.prompt_tokens - (blocks - 1) * round.prompt_hash_block_tokens;
      auto block = scaled(round.prompt_hash_block_tokens, factor);
      auto share = static_cast<double>(block) / round.prompt_hash_block_tokens;
      round.prompt_tokens = (blocks - 1) * block + std::min(block, scaled(last, share));
      round.prompt_hash_block_tokens = block;
    }
  return t;
}

trace limit(trace t, std::uint32_t agents, std::uint32_t max_rounds) {
  if (agents != 0 && t.trajectories.size() > agents) t.trajectories.resize(agents);
  if (max_rounds != 0)
    for (auto& one : t.trajectories)
      if (one.rounds.size() > max_rounds) one.rounds.resize(max_rounds);
  return t;
}

} // namespace dualpath::core

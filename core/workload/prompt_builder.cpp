#include "core/workload/prompt_builder.hpp"

#include <algorithm>
#include <cassert>

namespace dualpath::core {

namespace {

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t h = text.size();
  for (unsigned char c : text) h = mix(h ^ c);
  return h;
}

} // namespace

prompt_builder::prompt_builder(const trajectory& t, std::uint64_t seed, std::uint32_t vocabulary)
    : trajectory_{&t},
      seed_{mix(seed)},
      session_seed_{mix(seed_ ^ hash_of(t.session))},
      vocabulary_{vocabulary} {
  assert(vocabulary > 0);
}

std::vector<token_id> prompt_builder::next_prompt() {
  assert(!finished());
  const auto& round = next_spec();
  if (round.absolute())
    build_absolute(round);
  else
    append_round(round);
  ++next_round_;
  return context_;
}

void prompt_builder::generated(std::span<const token_id> tokens) {
  context_.insert(context_.end(), tokens.begin(), tokens.end());
}

void prompt_builder::append_round(const round_spec& round) {
  context_.reserve(context_.size() + round.append_tokens);
  auto round_seed = mix(session_seed_ ^ mix(next_round_));
  for (std::uint32_t i = 0; i < round.append_tokens; ++i) {
    auto token = i < round.append_ids.size() ? round.append_ids[i] : mix(round_seed + i);
    context_.push_back(static_cast<token_id>(token % vocabulary_));
  }
}

void prompt_builder::build_absolute(const round_spec& round) {
  context_.clear();
  context_.reserve(round.prompt_tokens);
  for (auto id : round.prompt_hash_ids) {
    auto block_seed = mix(seed_ ^ mix(~id));
    auto left = round.prompt_tokens - static_cast<std::uint32_t>(context_.size());
    for (std::uint32_t i = 0; i < std::min(left, round.prompt_hash_block_tokens); ++i)
      context_.push_back(static_cast<token_id>(mix(block_seed + i) % vocabulary_));
  }
}

} // namespace dualpath::core

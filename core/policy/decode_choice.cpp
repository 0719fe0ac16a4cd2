#include "core/policy/decode_choice.hpp"

#include <algorithm>
#include <tuple>

namespace dualpath::core {

namespace {

/// Σ_R len + Σ tok_e. Assigning the head of R moves its tokens from the first sum to the second and out of
/// the free HBM, so the value holds for the whole fetch.
std::uint64_t planned_tokens(std::span<const waiting_request> fifo, const std::vector<engine_load>& engines) {
  std::uint64_t free_tokens = 0, total = 0;
  for (const auto& e : engines) {
    free_tokens += e.free_hbm_tokens;
    total += e.unfinished_tokens;
  }
  for (const auto& waiting : fifo) {
    if (waiting.tokens > free_tokens) break;
    free_tokens -= waiting.tokens;
    total += waiting.tokens;
  }
  return total;
}

} // namespace

std::size_t choose_decode_group(std::span<const std::uint64_t> group_unfinished_tokens) {
  auto least = std::min_element(group_unfinished_tokens.begin(), group_unfinished_tokens.end());
  return static_cast<std::size_t>(least - group_unfinished_tokens.begin());
}

std::vector<assignment> choose_decode(std::span<const waiting_request> fifo,
                                      std::vector<engine_load> engines) {
  std::vector<assignment> chosen;
  auto planned = planned_tokens(fifo, engines);
  for (const auto& waiting : fifo) {
    // tok_e + len ≤ Z = 1.05 · planned / |E|, in whole numbers.
    auto within_z = [&](const engine_load& e) {
      return 20 * engines.size() * (e.unfinished_tokens + waiting.tokens) <= 21 * planned;
    };
    // Engines within Z rank before the others; among them the fewest requests win, among the others the
    // fewest tokens.
    auto rank = [&](const engine_load& e) {
      bool within = within_z(e);
      return std::tuple{!within, within ? e.unfinished_requests : 0, e.unfinished_tokens};
    };
    engine_load* best = nullptr;
    for (auto& e : engines)
      if (e.free_hbm_tokens >= waiting.tokens && (!best || rank(e) < rank(*best))) best = &e;
    if (!best) break;
    best->unfinished_requests += 1;
    best->unfinished_tokens += waiting.tokens;
    best->free_hbm_tokens -= waiting.tokens;
    chosen.push_back({waiting.request, best->engine});
  }
  return chosen;
}

} // namespace dualpath::core

#include "core/policy/prefill_choice.hpp"

namespace dualpath::core {

namespace {

/// The engine with the fewest unfinished tokens of the best non-empty class; null where all are overloaded.
engine_load* best_engine(std::vector<engine_load>& engines, const prefill_thresholds& thresholds) {
  engine_load* best = nullptr;
  bool best_is_short = false;
  for (auto& e : engines) {
    if (e.unfinished_tokens > thresholds.overload_tokens) continue;
    bool is_short = e.read_queue_tokens <= thresholds.short_queue_tokens;
    if (best && best_is_short && !is_short) continue;
    bool better_class = !best || (is_short && !best_is_short);
    if (better_class || e.unfinished_tokens < best->unfinished_tokens) {
      best = &e;
      best_is_short = is_short;
    }
  }
  return best;
}

} // namespace

std::vector<assignment> choose_prefill(std::span<const waiting_request> fifo,
                                       std::vector<engine_load> engines, prefill_thresholds thresholds) {
  std::vector<assignment> chosen;
  for (const auto& waiting : fifo) {
    auto* engine = best_engine(engines, thresholds);
    if (!engine) break;
    engine->unfinished_tokens += waiting.tokens;
    chosen.push_back({waiting.request, engine->engine});
  }
  return chosen;
}

} // namespace dualpath::core

#include "kernels/cpu/sampler.hpp"

#include <algorithm>
#include <vector>

namespace dualpath::kernels {
namespace {

/// Uniform in [0, 1).
double draw(std::uint64_t seed, std::uint32_t position) {
  auto bits = sequence::mix(sequence::mix(seed) ^ sequence::mix(std::uint64_t{position} + 1));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

} // namespace

core::token_id sample_token(std::span<const float> logits, const sampling& how, std::uint32_t position,
                            const kernel_table& kernels) {
  auto best = std::ranges::max_element(logits) - logits.begin();
  if (!(how.temperature > 0)) return static_cast<core::token_id>(best);
  auto highest = logits[static_cast<std::size_t>(best)];
  std::vector<float> weights((logits.size() + 15) / 16 * 16, -1000.0F);
  for (std::size_t i = 0; i < logits.size(); ++i) weights[i] = (logits[i] - highest) / how.temperature;
  kernels.exponential(weights.data(), weights.size(), weights.data());
  double total = 0;
  for (auto weight : weights) total += static_cast<double>(weight);
  auto threshold = draw(how.seed, position) * total;
  double reached = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    reached += static_cast<double>(weights[i]);
    if (reached > threshold) return static_cast<core::token_id>(i);
  }
  return static_cast<core::token_id>(best);
}

} // namespace dualpath::kernels

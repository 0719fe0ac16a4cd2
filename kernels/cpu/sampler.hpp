// Picks a token from logits. Greedy takes the largest, the lowest id where several are equal. With a
// temperature the draw depends on (seed, position) only, so a request that is computed again elsewhere draws
// the same tokens.
#pragma once

#include "core/ids.hpp"
#include "kernels/compute.hpp"
#include "kernels/cpu/kernel_table.hpp"

#include <cstdint>
#include <span>

namespace dualpath::kernels {

/// `logits` are finite and not empty; `position` is that of the token to draw.
core::token_id sample_token(std::span<const float> logits, const sampling& how, std::uint32_t position,
                            const kernel_table& kernels);

} // namespace dualpath::kernels

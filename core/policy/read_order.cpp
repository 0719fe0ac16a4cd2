#include "core/policy/read_order.hpp"

namespace dualpath::core {

namespace {

// In replays where every NIC always has a queue, twice as much takes another tenth off the median time to
// first token and adds about as much to the 99th percentile.
constexpr std::uint64_t lengths_until_due = 4;

} // namespace

std::uint64_t read_due(policy chosen, std::uint64_t begun_tokens, std::uint64_t tokens) {
  return chosen == policy::split ? begun_tokens + lengths_until_due * tokens : begun_tokens;
}

} // namespace dualpath::core

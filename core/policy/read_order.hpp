// In which order a storage NIC serves the reads that wait for it: the earliest due first. Pure.
//
// Splitting a read makes it finish early where NICs would idle. Where all of them always have a queue it
// cannot: first come first served, everybody waits for whatever is in front, as long as before. A read that
// is due only after some multiple of its own length has been read is overtaken by shorter ones that come
// shortly after it, so most requests wait less; and none waits for ever, because whatever comes later than
// its due time stays behind it.
#pragma once

#include "core/read_path.hpp"

#include <cstdint>

namespace dualpath::core {

/// Due time of a read of `tokens`, on a clock that counts the tokens that the NIC has begun to read:
/// `begun_tokens` of them when the read comes. Equals are served in the order in which they came. split: a
/// multiple of its length later. All others: at once, which is first come first served.
std::uint64_t read_due(policy chosen, std::uint64_t begun_tokens, std::uint64_t tokens);

} // namespace dualpath::core

// How fast is the arbiter, and does it give each lane what the tables say, whatever the size of messages?
#pragma once

#include "core/clock.hpp"
#include "core/policy/qos.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::apps {

struct arbiter_bench_row {
  std::string mix;            ///< sizes of messages
  double picks_per_s = 0;     ///< of one thread
  std::vector<double> shares; ///< of each class, in order; sum to 1
  double worst_error = 0;     ///< largest difference to the share the tables promise
};

/// `picks` of every mix, with a message always waiting in every lane. The config has passed check_qos().
std::vector<arbiter_bench_row> measure_arbiter(const core::qos_config& qos, std::uint64_t picks,
                                               const core::clock& clock, std::uint64_t seed);

} // namespace dualpath::apps
